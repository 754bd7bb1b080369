"""A size that numpy computes with.

target: scaled
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: np.sqrt(x.shape[0])
"""

import numpy as np


# fullgraph: f32[6, 8]
def scaled(x):
    return x / float(np.sqrt(x.shape[0]))
