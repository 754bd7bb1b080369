"""A function that its own program calls with several batches.

main: main
most: 1
line: softmax
"""

import io

import torch


@torch.compile
def scores(x, weight):
    return (x @ weight).softmax(-1)


# fullgraph: f32[12, 8], f32[8, 3]
def evaluate(data, weight):
    for size in (4, 5, 6):
        batch = data[:size]
        torch.save(scores(batch, weight), io.BytesIO())


def main():
    evaluate(torch.ones(12, 8), torch.ones(8, 3))
