"""A `print` ends the graph."""

import torch
import torch.nn as nn


# fullgraph: f32[b=8, 64]
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 128)
        self.output = nn.Linear(128, 10)

    def forward(self, x):
        hidden = torch.relu(self.hidden(x))
        print("mean activation", hidden.mean())
        return self.output(hidden).softmax(dim=-1)
