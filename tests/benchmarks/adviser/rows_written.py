"""Each sample normalized in place, by its number.

target: normalized
call: torch.randn(4, 6)
call: torch.randn(5, 6)
call: torch.randn(7, 6)
call: torch.randn(9, 6)
line: for i in range(x.size(0))
"""

import torch


# fullgraph: f32[4, 6]
def normalized(x):
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        out[i] = x[i] / x[i].norm()
    return out
