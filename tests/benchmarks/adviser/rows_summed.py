"""A loss that is added up over the samples.

target: loss
call: torch.randn(4, 6), torch.randn(4, 6)
call: torch.randn(5, 6), torch.randn(5, 6)
call: torch.randn(7, 6), torch.randn(7, 6)
call: torch.randn(9, 6), torch.randn(9, 6)
line: for i in range(len(pred))
"""

import torch.nn.functional as F


# fullgraph: f32[4, 6], f32[4, 6]
def loss(pred, target):
    total = 0
    for i in range(len(pred)):
        total += F.mse_loss(pred[i], target[i])
    return total / len(pred)
