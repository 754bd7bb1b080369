"""Targets shifted to the right behind zeros for a fixed batch.

target: shift_right
call: torch.randn(4, 6, 8)
call: torch.randn(5, 6, 8)
call: torch.randn(7, 6, 8)
call: torch.randn(9, 6, 8)
line: torch.cat([start
"""

import torch


# fullgraph: f32[4, 6, 8]
def shift_right(x):
    start = torch.zeros(4, 1, 8)
    return torch.cat([start, x[:, :-1]], dim=1)
