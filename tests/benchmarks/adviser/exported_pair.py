"""Two inputs exported with dynamic sizes, one of them made equal to a number.

main: main
line: x + table
"""

import torch
import torch.nn as nn
from torch.export import Dim, export


# fullgraph: init() forward(f32[2, n=6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(16, 8))

    def forward(self, x):
        table = self.table[:6]
        return x + table


def main():
    x = torch.ones(2, 6, 8)
    program = export(Net(), (x,), dynamic_shapes={"x": {1: Dim("n", max=16)}})
    return [program.module()(torch.ones(2, size, 8)) for size in (6, 5, 9)]
