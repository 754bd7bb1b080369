"""Each sample of a batch by itself, by its number.

target: Head()
call: torch.randn(4, 6, 8)
call: torch.randn(5, 6, 8)
call: torch.randn(7, 6, 8)
call: torch.randn(9, 6, 8)
line: for i in range(x.shape[0])
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[4, 6, 8])
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        outputs = []
        for i in range(x.shape[0]):
            h = self.fc(x[i])
            outputs.append(h / h.norm())
        return torch.stack(outputs)
