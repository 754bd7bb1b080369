"""Positions registered as a buffer for the longest text.

target: Embed()
call: torch.randint(20, (2, 9))
call: torch.randint(20, (2, 5))
call: torch.randint(20, (2, 7))
call: torch.randint(20, (2, 6))
line: self.word(ids) + self.position(self.position_ids)
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(i64[2, n=9])
class Embed(nn.Module):
    def __init__(self, vocabulary=20, length=9, dim=8):
        super().__init__()
        self.word = nn.Embedding(vocabulary, dim)
        self.position = nn.Embedding(length, dim)
        self.register_buffer("position_ids", torch.arange(length).unsqueeze(0))

    def forward(self, ids):
        return self.word(ids) + self.position(self.position_ids)
