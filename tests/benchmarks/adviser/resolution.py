"""A picture whose resolution is unpacked from a tuple of the constructor.

target: Merging()
call: torch.randn(2, 32, 3)
call: torch.randn(2, 48, 3)
call: torch.randn(2, 64, 3)
call: torch.randn(2, 80, 3)
line: x.view(B, H, W, C)
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, n=32, 3])
class Merging(nn.Module):
    def __init__(self, resolution=(4, 8)):
        super().__init__()
        self.resolution = resolution

    def forward(self, x):
        H, W = self.resolution
        B, _, C = x.shape
        x = x.view(B, H, W, C)
        return torch.cat([x[:, :, 0::2], x[:, :, 1::2]], -1)
