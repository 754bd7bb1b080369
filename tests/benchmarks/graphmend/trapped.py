"""Inputs that are checked before they are used (MoLFormer)."""

import torch
import torch.nn as nn


class LinearAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        if not torch.all((mask == 0) | (mask == 1)):
            raise ValueError("The mask of linear attention has to hold zeros and ones only.")
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k = torch.relu(k) * mask[..., None]
        q = torch.relu(q)
        return q @ (k.transpose(-1, -2) @ v)


class Model(nn.Module):
    def __init__(self, words=32, width=16, layers=2):
        super().__init__()
        self.words = words
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(LinearAttention(width) for _ in range(layers))

    def forward(self, ids, mask, positions):
        if ids.min() < 0 or ids.max() >= self.words:
            raise ValueError("a token outside of the vocabulary")
        assert (positions[:, 1:] > positions[:, :-1]).all(), "positions have to ascend"
        if mask.sum() == 0:
            raise ValueError("nothing is left of the input")
        x = self.embed(ids) + torch.sin(positions.float())[..., None]
        for layer in self.layers:
            x = x + layer(x, mask)
        return x


def build():
    return Model()


def example_input():
    positions = torch.arange(8).expand(2, 8)
    return torch.arange(16).reshape(2, 8), torch.ones(2, 8), positions
