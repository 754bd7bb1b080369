"""A module that its own program compiles for static sizes only, although the sizes vary.

main: main
most: 1
line: self.fc(x)
"""

import io

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(x).relu()


# fullgraph: f32[12, 8]
def evaluate(data):
    net = torch.compile(Net(), dynamic=False)
    for size in (4, 5, 6):
        torch.save(net(data[:size]), io.BytesIO())


def main():
    evaluate(torch.ones(12, 8))
