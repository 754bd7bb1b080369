"""A causal mask made anew for one length.

target: attend
call: torch.randn(2, 6, 8)
call: torch.randn(2, 5, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 11, 8)
line: masked_fill
"""

import torch


# fullgraph: f32[2, n=6, 8]
def attend(x):
    scores = x @ x.transpose(-2, -1)
    mask = torch.tril(torch.ones(6, 6))
    scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(-1) @ x
