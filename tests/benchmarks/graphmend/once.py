"""Messages that are logged once, from the layers of a decoder (T5, Whisper, BioGPT and others)."""

import functools
import logging

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


@functools.lru_cache(None)
def warning_once(self, *args, **kwargs):
    self.warning(*args, **kwargs)


logging.Logger.warning_once = warning_once


class Attention(nn.Module):
    def __init__(self, width, layer=None):
        super().__init__()
        self.layer = layer
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, past=None):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.layer is None:
            logger.warning_once(f"{type(self).__name__} was made without the index of its layer")
        weights = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return self.out(weights @ v)


class Decoder(nn.Module):
    def __init__(self, layers=2, width=16, words=40):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, ids, past=None, use_cache=True, output_attentions=True):
        x = self.embed(ids)
        if use_cache and not isinstance(past, tuple):
            logger.warning_once("Give `past` as a cache: tuples are deprecated.")
        if output_attentions:
            logger.warning("attentions are computed in the plain way")
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def build():
    return Decoder()


def example_input():
    return torch.arange(16).reshape(2, 8)
