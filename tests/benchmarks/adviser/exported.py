"""A module exported with a dynamic batch, in which the size is written.

main: main
line: x.reshape(4, -1)
"""

import torch
import torch.nn as nn
from torch.export import Dim, export


# fullgraph: init() forward(f32[b=4, 3, 2])
class Net(nn.Module):
    def forward(self, x):
        return x.reshape(4, -1).softmax(-1)


def main():
    x = torch.ones(4, 3, 2)
    program = export(Net(), (x,), dynamic_shapes={"x": {0: Dim("batch")}})
    return [program.module()(torch.ones(size, 3, 2)) for size in (4, 5, 7)]
