"""Attention to places that the mask marks as global (Longformer)."""

import logging

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, mask):
        if x.shape[1] % 4:
            logger.warning("the sequence is not padded to the window")
        else:
            logger.info("the sequence fits the window")
        is_global = mask > 0
        any_global = is_global.flatten().any().item()
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-1, -2)
        if any_global:
            most = is_global.long().sum(dim=1).max()
            places = is_global.nonzero(as_tuple=True)
            picked = torch.arange(most) < is_global.long().sum(dim=1)[:, None]
            local = picked.nonzero(as_tuple=True)
            keys = k.new_zeros(x.shape[0], most, x.shape[2])
            keys[local] = k[places]
            extra = torch.einsum("bld,bgd->blg", q, keys)
            scores = scores + extra.sum(-1, keepdim=True)
        logger.warning("attended")
        return torch.softmax(scores, -1) @ v


def build():
    return Model()


def example_input():
    mask = torch.zeros(2, 8)
    mask[0, :2] = 1
    mask[1, 3] = 1
    return torch.randn(2, 8, 16), mask
