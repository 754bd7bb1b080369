"""Angles that are computed again for longer texts, as rotary embeddings do.

target: Rotary()
call: torch.randn(2, 6, 8)
call: torch.randn(2, 7, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 12, 8)
call: torch.randn(2, 15, 8)
line: seq_len > self.max_seq_len
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 6, 8])
class Rotary(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, dim, 2) / dim))
        self.max_seq_len = 0
        self.cos = None

    def forward(self, x):
        seq_len = x.shape[1]
        if seq_len > self.max_seq_len:
            self.max_seq_len = seq_len
            angles = torch.outer(torch.arange(seq_len).float(), self.inv_freq)
            self.cos = torch.cat((angles, angles), dim=-1).cos()
        return x * self.cos[:seq_len]
