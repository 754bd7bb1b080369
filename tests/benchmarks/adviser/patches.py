"""Patches cut with `unfold`, their number written in the code.

target: patches
call: torch.randn(2, 3, 8, 8)
call: torch.randn(2, 3, 12, 8)
call: torch.randn(2, 3, 16, 8)
call: torch.randn(2, 3, 20, 8)
line: .reshape(2, 4, 48)
"""


# fullgraph: f32[2, 3, h=8, 8]
def patches(x):
    cut = x.unfold(2, 4, 4).unfold(3, 4, 4)
    return cut.permute(0, 2, 3, 1, 4, 5).reshape(2, 4, 48)
