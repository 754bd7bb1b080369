import torch.nn as nn


# A probe: what the model is made and called with. Change the sizes, and the hints follow.
# fullgraph: init(dim=16) forward(f32[b=4, 16])
class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.second = nn.Linear(dim, dim)

    def forward(self, x):
        hidden = self.first(x).relu()
        # torch.compile cannot keep this in a graph: there are two, with Python between them.
        # Delete the line, and see them become one.
        print("mean", hidden.mean())
        return self.second(hidden)
