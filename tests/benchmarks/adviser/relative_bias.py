"""A bias for each pair of places, for one number of places.

target: Attention()
call: torch.randn(2, 3, 9, 4)
call: torch.randn(2, 3, 5, 4)
call: torch.randn(2, 3, 7, 4)
call: torch.randn(2, 3, 6, 4)
line: scores + self.bias
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 3, n=9, 4])
class Attention(nn.Module):
    def __init__(self, heads=3, places=9):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(1, heads, places, places))

    def forward(self, q):
        scores = q @ q.transpose(-2, -1)
        scores = scores + self.bias
        return scores.softmax(-1) @ q
