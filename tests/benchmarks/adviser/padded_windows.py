"""Padding to a multiple of the window, which numpy rounds up.

target: padded
call: torch.randn(2, 6, 3)
call: torch.randn(2, 7, 3)
call: torch.randn(2, 13, 3)
call: torch.randn(2, 21, 3)
line: np.ceil
"""

import numpy as np
import torch.nn.functional as F


# fullgraph: f32[2, n=6, 3]
def padded(x):
    length = int(np.ceil(x.shape[1] / 4)) * 4
    x = F.pad(x, (0, 0, 0, length - x.shape[1]))
    return x.unflatten(1, (-1, 4)).mean(2)
