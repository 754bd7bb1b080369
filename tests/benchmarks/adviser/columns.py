"""Steps of a sequence through one layer, each by its number, stacked in their dimension.

target: PerStep()
call: torch.randn(4, 6, 8)
call: torch.randn(4, 5, 8)
call: torch.randn(4, 7, 8)
call: torch.randn(4, 9, 8)
line: for t in range(x.size(1))
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[4, 6, 8])
class PerStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        steps = []
        for t in range(x.size(1)):
            steps.append(torch.tanh(self.fc(x[:, t])))
        return torch.stack(steps, dim=1)
