"""A weight that grows with the number of steps.

target: Loss()
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
line: self.step += 1
"""

import torch.nn as nn


# fullgraph: init() forward(f32[6, 8])
class Loss(nn.Module):
    def __init__(self, warmup=100):
        super().__init__()
        self.warmup = warmup
        self.step = 0

    def forward(self, x):
        self.step += 1
        weight = self.step / self.warmup
        return weight * x.square().mean()
