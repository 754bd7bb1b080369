"""Grids kept by a text made of their sizes.

target: Grid()
call: torch.randn(2, 3, 6, 8)
call: torch.randn(2, 3, 5, 8)
call: torch.randn(2, 3, 9, 8)
call: torch.randn(2, 3, 7, 8)
line: f"{flow.shape[2]}x{flow.shape[3]}"
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 3, 6, 8])
class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.grids = {}

    def forward(self, flow):
        key = f"{flow.shape[2]}x{flow.shape[3]}"
        if key not in self.grids:
            self.grids[key] = torch.linspace(-1.0, 1.0, flow.shape[2]).view(1, 1, -1, 1)
        return flow + self.grids[key]
