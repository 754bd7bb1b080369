"""The batch size kept for another method.

target: Net()
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: self.batch_size
"""

import torch.nn as nn


# fullgraph: init() forward(f32[6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.batch_size = 0

    def forward(self, x):
        if self.batch_size != x.shape[0]:
            self.batch_size = x.shape[0]
        return self.fc(x)
