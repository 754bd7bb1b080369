"""A vector for each channel, pooled with the size of the picture.

target: Squeeze()
call: torch.randn(2, 4, 6, 6)
call: torch.randn(2, 4, 5, 5)
call: torch.randn(2, 4, 9, 9)
call: torch.randn(2, 4, 7, 7)
line: F.avg_pool2d(x, 6)
"""

import torch.nn as nn
import torch.nn.functional as F


# fullgraph: init() forward(f32[2, 4, h=6, h=6])
class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = F.avg_pool2d(x, 6).flatten(1)
        return x * self.fc(y).sigmoid()[:, :, None, None]
