"""Values that are changed on a condition without another side (Florence-2)."""

import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))
        if x.dtype == torch.float16 and (torch.isinf(x).any() or torch.isnan(x).any()):
            most = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-most, max=most)
        return x


class Model(nn.Module):
    def __init__(self, width=16, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, pixels, prompt):
        x = torch.cat([pixels, prompt], dim=1)
        if prompt.abs().max() > 8:
            x = x / 8
        for layer in self.layers:
            x = layer(x)
        return x * self.scale


def build():
    return Model().half()


def example_input():
    return torch.randn(2, 6, 16).half(), torch.randn(2, 3, 16).half()
