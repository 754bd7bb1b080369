"""A state that goes from step to step.

target: smoothed
call: torch.randn(4, 6)
call: torch.randn(4, 5)
call: torch.randn(4, 7)
call: torch.randn(4, 9)
line: for t in range(x.shape[1])
"""

import torch


# fullgraph: f32[4, 6]
def smoothed(x):
    state = torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        state = torch.tanh(0.9 * state + x[:, t])
    return state
