"""Keys joined to those of the calls before.

target: Cache()
call: torch.randn(2, 3, 8)
call: torch.randn(2, 3, 8)
call: torch.randn(2, 3, 8)
call: torch.randn(2, 3, 8)
call: torch.randn(2, 3, 8)
line: self.keys
most: 3
"""

import torch
import torch.nn as nn


# fullgraph: init() forward(f32[2, 3, 8])
class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = None
        self.seen = 0

    def forward(self, key):
        self.keys = key if self.keys is None else torch.cat([self.keys, key], dim=1)
        self.seen += key.shape[1]
        return self.keys.sum(1) / self.seen
