import torch
import torch.nn as nn


# A probe comment: dtype and sizes of the input.
# fullgraph: f32[b=64, 256]
class Net(nn.Module):
    def forward(self, x):
        hidden = torch.tanh(torch.sigmoid(x) * 2 - 1)
        hidden = hidden * torch.exp(-x * x)
        # This is a graph break: there are two graphs,
        # with Python between them. Try its quick fix.
        print("mean", hidden.mean())
        return torch.sin(hidden) * x + torch.cos(hidden)
