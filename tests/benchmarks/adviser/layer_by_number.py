"""A layer that is chosen by its number.

target: Experts()
call: torch.randn(4, 8), 0
call: torch.randn(4, 8), 1
call: torch.randn(4, 8), 2
call: torch.randn(4, 8), 3
line: self.experts[index]
meant: each number is another layer
"""

import torch.nn as nn


# fullgraph: init() forward(f32[4, 8], 0)
class Experts(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))

    def forward(self, x, index):
        return self.experts[index](x)
