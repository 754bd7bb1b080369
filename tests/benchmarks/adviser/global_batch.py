"""A batch size that is a constant of the file.

target: flatten
call: torch.randn(4, 3, 5)
call: torch.randn(5, 3, 5)
call: torch.randn(7, 3, 5)
call: torch.randn(6, 3, 5)
line: x.view(BATCH_SIZE, -1)
"""

BATCH_SIZE = 4


# fullgraph: f32[4, 3, 5]
def flatten(x):
    return x.view(BATCH_SIZE, -1)
