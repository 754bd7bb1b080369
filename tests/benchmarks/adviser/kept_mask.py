"""A mask made again when the length is another one.

target: Attention()
call: torch.randn(2, 6, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 7, 8)
call: torch.randn(2, 11, 8)
line: self.mask
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 6, 8])
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        n = x.shape[1]
        if self.mask is None or self.mask.shape[0] != n:
            self.mask = torch.full((n, n), float("-inf")).triu(1)
        scores = x @ x.transpose(1, 2) + self.mask
        return scores.softmax(-1) @ x
