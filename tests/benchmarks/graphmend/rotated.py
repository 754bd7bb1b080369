"""Frequencies chosen by the longest position, kept as a buffer (Phi-4)."""

import torch
import torch.nn as nn


class Rotary(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        self.longest = longest
        steps = torch.arange(0, width, 2) / width
        self.register_buffer("inv_freq", 1.0 / 10000**steps, persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)
        self.register_buffer("long_inv_freq", self.inv_freq / 4, persistent=False)

    def update(self, position_ids):
        seq_len = torch.max(position_ids) + 1
        if seq_len > self.longest:
            self.register_buffer("inv_freq", self.long_inv_freq, persistent=False)
        else:
            self.register_buffer("inv_freq", self.original_inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        self.update(position_ids)
        frequencies = position_ids[:, :, None].float() @ self.inv_freq[None, None, :]
        angles = torch.cat((frequencies, frequencies), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Model(nn.Module):
    def __init__(self, width=16, longest=32):
        super().__init__()
        self.rotary = Rotary(width, longest)
        self.out = nn.Linear(width, width)

    def forward(self, x, position_ids):
        cos, sin = self.rotary(x, position_ids)
        return self.out(x * cos + torch.roll(x, 1, -1) * sin)


def build():
    return Model()


def example_input():
    return torch.randn(2, 8, 16), torch.arange(8).expand(2, 8)
