"""Attention in one graph."""

import torch.nn as nn
import torch.nn.functional as F


# fullgraph: f32[b=4, t=32, 64]
class Attention(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, dim = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(b, t, dim))
