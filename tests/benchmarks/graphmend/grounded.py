"""Masks by special tokens, reference points by level, checks of sizes (Grounding DINO)."""

import torch
import torch.nn as nn


def masks_of_tokens(input_ids, special):
    batch, length = input_ids.shape
    is_special = torch.zeros((batch, length), dtype=torch.bool)
    for token in special:
        is_special |= input_ids == token
    places = torch.nonzero(is_special)
    attention = torch.eye(length, dtype=torch.bool).unsqueeze(0).repeat(batch, 1, 1)
    position_ids = torch.zeros((batch, length))
    previous = 0
    for row, column in places:
        if column == 0 or column == length - 1:
            attention[row, column, column] = True
            position_ids[row, column] = 0
        else:
            attention[row, previous + 1 : column + 1, previous + 1 : column + 1] = True
            position_ids[row, previous + 1 : column + 1] = torch.arange(0, column - previous)
        previous = column
    return attention, position_ids.long()


class Deformable(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width)

    def forward(self, x, shapes):
        if (shapes[:, 0] * shapes[:, 1]).sum() != x.shape[1]:
            raise ValueError("the levels do not add up to the sequence")
        return self.value(x)


class Model(nn.Module):
    def __init__(self, words=32, width=16, layers=3):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.positions = nn.Embedding(16, width)
        self.layers = nn.ModuleList(Deformable(width) for _ in range(layers))

    def reference_points(self, shapes, ratios):
        points = []
        for level, (height, width) in enumerate(shapes):
            y, x = torch.meshgrid(
                torch.linspace(0.5, height - 0.5, int(height)),
                torch.linspace(0.5, width - 0.5, int(width)),
                indexing="ij",
            )
            y = y.reshape(-1)[None] / (ratios[:, None, level, 1] * height)
            x = x.reshape(-1)[None] / (ratios[:, None, level, 0] * width)
            points.append(torch.stack((x, y), -1))
        return torch.cat(points, 1)

    def forward(self, input_ids, features, shapes, ratios):
        attention, position_ids = masks_of_tokens(input_ids, (1, 2))
        text = self.embed(input_ids) + self.positions(position_ids)
        text = attention.float() @ text
        points = self.reference_points(shapes, ratios)
        for layer in self.layers:
            features = layer(features, shapes)
        scores = features @ text.transpose(1, 2)
        best = scores.max(-1).values
        if torch.isnan(best).any():
            best = torch.nan_to_num(best)
        return best, points


def build():
    return Model()


def example_input():
    ids = torch.tensor([[1, 5, 6, 2, 7, 1]])
    shapes = torch.tensor([[4, 4], [2, 2]])
    return ids, torch.randn(1, 20, 16), shapes, torch.ones(1, 2, 2)
