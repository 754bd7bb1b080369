"""Scores scaled by the logarithm of the length.

target: scaled
call: torch.randn(2, 6, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 7, 8)
line: math.log(x.shape[1])
"""

import math


# fullgraph: f32[2, 6, 8]
def scaled(x):
    scale = math.log(x.shape[1])
    return (x @ x.transpose(1, 2) * scale).softmax(-1)
