"""A batch size in a dictionary of hyperparameters.

target: Net()
call: torch.randn(4, 3, 5)
call: torch.randn(5, 3, 5)
call: torch.randn(7, 3, 5)
call: torch.randn(6, 3, 5)
line: x.reshape(config["batch"], 15)
"""

import torch.nn as nn

config = {"batch": 4, "width": 15}


# fullgraph: init() forward(f32[4, 3, 5])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(config["width"], 2)

    def forward(self, x):
        x = x.reshape(config["batch"], 15)
        return self.head(x)
