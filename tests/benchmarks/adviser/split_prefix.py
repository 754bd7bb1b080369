"""A prefix of fixed length, and the rest with its length in the code.

target: joined
call: torch.randn(2, 12, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 15, 8)
call: torch.randn(2, 18, 8)
line: torch.split(x, [2, 10], dim=1)
"""

import torch


# fullgraph: f32[2, n=12, 8]
def joined(x):
    prefix, rest = torch.split(x, [2, 10], dim=1)
    return rest + prefix.mean(1, keepdim=True)
