"""Weights of the rows from one end of a range to the other.

target: fade
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: return x *
"""

import torch


# fullgraph: f32[6, 8]
def fade(x):
    weights = torch.linspace(0.0, 1.0, 6)
    return x * weights.unsqueeze(-1)
