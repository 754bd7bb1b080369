"""Other features in the places that a token asks for (Qwen-Audio)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, words=64, width=16, start=60):
        super().__init__()
        self.start = start
        self.embed = nn.Embedding(words, width)
        self.audio = nn.Linear(8, width)
        self.block = nn.Linear(width, width)

    def forward(self, input_ids, audios=None):
        hidden = self.embed(input_ids)
        if audios is not None and torch.any(input_ids == self.start):
            features = self.audio(audios).mean(1, keepdim=True)
            hidden = hidden + features * (input_ids == self.start)[..., None]
        hidden = torch.relu(self.block(hidden))
        if torch.any(hidden > 100):
            hidden = hidden.clamp(max=100)
        return hidden


def build():
    return Model()


def example_input():
    return torch.tensor([[3, 60, 5, 9], [60, 2, 1, 7]]), torch.randn(2, 5, 8)
