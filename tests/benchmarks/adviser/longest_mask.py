"""A causal mask kept for the longest text, used as it is.

target: Attention()
call: torch.randn(2, 8, 6)
call: torch.randn(2, 5, 6)
call: torch.randn(2, 7, 6)
call: torch.randn(2, 4, 6)
line: scores.masked_fill
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, n=8, 6])
class Attention(nn.Module):
    def __init__(self, dim=6, block_size=8):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1)
        scores = scores.masked_fill(self.tril == 0, float("-inf"))
        return scores.softmax(-1) @ x
