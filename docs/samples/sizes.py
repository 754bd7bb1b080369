"""A second batch size recompiles."""

import torch.nn as nn
import torch.nn.functional as F


# Two calls of one compiled model, with batches of 8 and of 5.
# fullgraph: forward(f32[8, 64]) then forward(f32[5, 64])
class Even(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 32)

    def forward(self, x):
        if x.shape[0] % 2:
            x = F.pad(x, (0, 0, 0, 1))
        return self.layer(x).relu()
