"""An upper layer of a U-Net brought to a size in the code.

target: Up()
call: torch.randn(2, 4, 4, 4), torch.randn(2, 4, 8, 8)
call: torch.randn(2, 4, 5, 5), torch.randn(2, 4, 10, 10)
call: torch.randn(2, 4, 6, 6), torch.randn(2, 4, 12, 12)
call: torch.randn(2, 4, 7, 7), torch.randn(2, 4, 14, 14)
line: torch.cat([x, skip], dim=1)
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


# fullgraph: init() forward(f32[2, 4, 4, 4], f32[2, 4, h=8, h=8])
class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x, skip):
        x = F.interpolate(x, size=(8, 8), mode="nearest")
        x = torch.cat([x, skip], dim=1)
        return self.conv(x)
