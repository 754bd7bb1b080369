"""Masks kept in a dictionary by their length.

target: Attention()
call: torch.randn(2, 6, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 7, 8)
line: self.masks
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 6, 8])
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {}

    def forward(self, x):
        n = x.shape[1]
        if n not in self.masks:
            self.masks[n] = torch.ones(n, n, dtype=torch.bool).tril()
        scores = x @ x.transpose(1, 2)
        return scores.masked_fill(~self.masks[n], float("-inf")).softmax(-1) @ x
