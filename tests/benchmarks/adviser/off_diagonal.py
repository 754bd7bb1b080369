"""Pairs of a contrastive loss, on a diagonal whose place is the size of the batch.

target: PairLoss()
call: torch.randn(6, 8), torch.randn(6, 8)
call: torch.randn(5, 8), torch.randn(5, 8)
call: torch.randn(7, 8), torch.randn(7, 8)
call: torch.randn(9, 8), torch.randn(9, 8)
line: torch.diag(alike, number)
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[6, 8], f32[6, 8])
class PairLoss(nn.Module):
    def __init__(self, temperature=0.5):
        super().__init__()
        self.temperature = temperature

    def forward(self, first, second):
        number = first.shape[0]
        both = nn.functional.normalize(torch.cat([first, second]), dim=1)
        alike = both @ both.T / self.temperature
        pairs = torch.cat([torch.diag(alike, number), torch.diag(alike, -number)])
        return (alike.logsumexp(dim=1) - pairs).mean()
