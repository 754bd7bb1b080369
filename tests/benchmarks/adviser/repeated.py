"""Queries repeated for a batch size kept in the module.

target: Decoder()
call: torch.randn(4, 9, 8)
call: torch.randn(5, 9, 8)
call: torch.randn(7, 9, 8)
call: torch.randn(6, 9, 8)
line: torch.bmm(queries
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[4, 9, 8])
class Decoder(nn.Module):
    def __init__(self, batch_size=4, dim=8):
        super().__init__()
        self.batch_size = batch_size
        self.query = nn.Parameter(torch.randn(1, 3, dim))

    def forward(self, memory):
        queries = self.query.repeat(self.batch_size, 1, 1)
        scores = torch.bmm(queries, memory.transpose(1, 2))
        return scores.softmax(-1) @ memory
