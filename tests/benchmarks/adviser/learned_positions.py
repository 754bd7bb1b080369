"""Learned positions for one number of patches.

target: Patches()
call: torch.randn(2, 9, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 7, 8)
call: torch.randn(2, 6, 8)
line: x + self.pos_embed
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, n=9, 8])
class Patches(nn.Module):
    def __init__(self, patches=9, dim=8):
        super().__init__()
        self.pos_embed = nn.Parameter(torch.randn(1, patches, dim) * 0.02)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.pos_embed
        return self.norm(x)
