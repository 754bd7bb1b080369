"""Calls that are counted, and nothing else.

target: Net()
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
line: self.calls += 1
"""

import torch.nn as nn


# fullgraph: init() forward(f32[6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.fc(x)
