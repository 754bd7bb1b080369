"""Features flattened for the batch size of the configuration.

target: Net()
call: torch.randn(4, 3, 8, 8)
call: torch.randn(5, 3, 8, 8)
call: torch.randn(7, 3, 8, 8)
call: torch.randn(9, 3, 8, 8)
line: x.view(4, 6 * 4 * 4)
"""

import torch.nn as nn
import torch.nn.functional as F


# fullgraph: init() forward(f32[4, 3, 8, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.head = nn.Linear(6 * 4 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = x.view(4, 6 * 4 * 4)
        return self.head(x)
