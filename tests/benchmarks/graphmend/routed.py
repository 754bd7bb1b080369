"""Tokens sent to the experts that a router chose (MiniCPM)."""

import torch
import torch.nn as nn


class Experts(nn.Module):
    def __init__(self, width, experts=4, chosen=2):
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, hidden_states):
        batch, length, width = hidden_states.shape
        flat = hidden_states.view(-1, width)
        weights = torch.softmax(self.gate(flat), dim=1)
        weights, selected = torch.topk(weights, self.chosen, dim=-1)
        final = torch.zeros_like(flat)
        mask = torch.nn.functional.one_hot(selected, len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            if token.shape[0] == 0:
                continue
            current = expert(flat[token]) * weights[token, place, None]
            final.index_add_(0, token, current)
        return final.reshape(batch, length, width)


class Model(nn.Module):
    def __init__(self, width=16, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Experts(width) for _ in range(layers))

    def forward(self, hidden_states):
        for layer in self.layers:
            hidden_states = hidden_states + layer(hidden_states)
        return hidden_states


def build():
    return Model()


def example_input():
    return torch.randn(2, 6, 16)
