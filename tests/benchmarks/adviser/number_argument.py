"""A number that each call gives, such as a learning rate.

target: step
call: torch.randn(4, 8), torch.randn(4, 8), 0.5
call: torch.randn(4, 8), torch.randn(4, 8), 0.25
call: torch.randn(4, 8), torch.randn(4, 8), 0.125
call: torch.randn(4, 8), torch.randn(4, 8), 0.0625
line: lr
"""

import math


# fullgraph: f32[4, 8], f32[4, 8], 0.5
def step(weight, grad, lr):
    decay = math.exp(-lr)
    return weight * decay - lr * grad
