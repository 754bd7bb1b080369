"""Features fused where the input is longer (CLAP)."""

import torch
import torch.nn as nn


class Fusion(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.local = nn.Linear(width, width)

    def forward(self, whole, part):
        weight = torch.sigmoid(self.local(whole + part))
        return 2 * whole * weight + 2 * part * (1 - weight)


class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.part = nn.Linear(width, width)
        self.fusion = Fusion(width)

    def forward(self, features, parts, is_longer):
        hidden = self.project(features)
        longer = torch.where(is_longer.view(-1) == 1)[0]
        if len(longer) > 0:
            local = self.part(parts[longer])
            hidden[longer] = self.fusion(hidden[longer], local)
        return torch.relu(hidden)


def build():
    return Model()


def example_input():
    is_longer = torch.tensor([[1], [0], [1], [0]])
    return torch.randn(4, 8, 16), torch.randn(4, 8, 16), is_longer
