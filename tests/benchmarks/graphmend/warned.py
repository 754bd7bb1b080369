"""Warnings about arguments that are deprecated (LayoutLM)."""

import warnings

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, width=16, device=None):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def extended(self, mask, dtype, device):
        if device is not None:
            warnings.warn("`device` is deprecated and is not used.", FutureWarning, stacklevel=2)
        return (1.0 - mask[:, None].to(dtype)) * torch.finfo(dtype).min

    def forward(self, x, mask, head_mask=None):
        bias = self.extended(mask, x.dtype, x.device)
        x = self.first(x)
        if head_mask is None:
            warnings.warn("`head_mask` will have to be given", DeprecationWarning, stacklevel=2)
        weights = torch.softmax(x @ x.transpose(-1, -2) + bias, -1)
        return self.second(weights @ x)


def build():
    return Encoder()


def example_input():
    return torch.randn(2, 8, 16), torch.ones(2, 8)
