"""A temperature that falls with each call, on a curve.

target: Gate()
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
line: self.temperature
"""

import math

import torch.nn as nn


# fullgraph: init() forward(f32[6, 8])
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = 5.0

    def forward(self, x):
        self.temperature = 0.5 + (self.temperature - 0.5) * math.exp(-self.temperature / 100)
        return (x / self.temperature).softmax(-1)
