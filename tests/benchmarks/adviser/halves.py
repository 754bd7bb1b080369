"""Two halves of a batch, split by their size.

target: mixed
call: torch.randn(6, 8)
call: torch.randn(10, 8)
call: torch.randn(14, 8)
call: torch.randn(18, 8)
line: torch.split(x, 3)
"""

import torch


# fullgraph: f32[b=6, 8]
def mixed(x):
    real, fake = torch.split(x, 3)
    return fake.mean() - real.mean()
