"""What went through, in a list.

target: Net()
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
call: torch.randn(11, 8)
line: self.sizes.append
"""

import torch.nn as nn


# fullgraph: init() forward(f32[6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.sizes = []

    def forward(self, x):
        self.sizes.append(x.shape[0])
        return self.fc(x)
