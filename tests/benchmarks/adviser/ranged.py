"""Positions counted up to a number in the code.

target: Embed()
call: torch.randn(2, 6, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 12, 8)
line: x + self.position
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, n=6, 8])
class Embed(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.position = nn.Embedding(64, dim)

    def forward(self, x):
        positions = torch.arange(6, device=x.device)
        return x + self.position(positions)
