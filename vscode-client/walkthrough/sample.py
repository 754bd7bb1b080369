import torch
import torch.nn as nn


# A probe: what the model is called with. Change the sizes, and the hints follow.
# fullgraph: f32[b=256, 1024]
class Net(nn.Module):
    def forward(self, x):
        hidden = torch.tanh(torch.sigmoid(x) * 2 - 1) * torch.exp(-x * x)
        # torch.compile cannot keep this in a graph: there are two, with Python between them.
        # Its quick fix (Ctrl+. or Cmd+.) makes one graph of them.
        print("mean", hidden.mean())
        return torch.sin(hidden) * x + torch.cos(hidden)
