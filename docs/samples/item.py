"""`.item()` reads a tensor's value."""

import torch
import torch.nn as nn


# fullgraph: f32[b=8, 64]
class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        y = self.layer(x)
        scale = y.abs().max().item()
        return torch.tanh(y / scale)
