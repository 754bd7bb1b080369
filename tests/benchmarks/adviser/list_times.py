"""Weights of the samples from a list that is as long as the batch.

target: weighted
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: [0.5] * x.shape[0]
"""

import torch


# fullgraph: f32[6, 8]
def weighted(x):
    weights = torch.tensor([0.5] * x.shape[0])
    return (x * weights.unsqueeze(1)).sum(0)
