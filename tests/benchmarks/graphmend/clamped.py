"""Values clamped in half precision if any is not finite, messages logged once (BART, Marian)."""

import functools
import logging

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


@functools.lru_cache(None)
def warning_once(self, *args, **kwargs):
    self.warning(*args, **kwargs)


logging.Logger.warning_once = warning_once


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, hidden_states, output_attentions=False):
        residual = hidden_states
        hidden_states = self.down(torch.relu(self.up(hidden_states)))
        hidden_states = self.norm(residual + hidden_states)
        if hidden_states.dtype == torch.float16 and (
            torch.isinf(hidden_states).any() or torch.isnan(hidden_states).any()
        ):
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.clamp(hidden_states, min=-clamp_value, max=clamp_value)

        outputs = (hidden_states,)
        if output_attentions:
            outputs += (None,)
        return outputs


class Encoder(nn.Module):
    def __init__(self, layers=2, width=16, dtype=None):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.to(dtype)

    def forward(self, hidden_states, past=None, use_cache=True):
        if use_cache and past is None:
            logger.warning_once("The cache of this decoder is not made.")
        for layer in self.layers:
            hidden_states = layer(hidden_states)[0]
        if use_cache:
            logger.warning_once("`use_cache=True` does not go with this.")
        logger.warning("the states are returned as a tuple")
        return (hidden_states * 2,)


def build():
    return Encoder(dtype=torch.float16)


def example_input():
    return torch.randn(2, 5, 16).half()
