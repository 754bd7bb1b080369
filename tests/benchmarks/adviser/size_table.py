"""A scale looked up by the batch size.

target: scaled
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: SCALES.get(x.shape[0], 1.0)
meant: the scale is chosen by the size
"""

SCALES = {4: 0.5, 6: 0.25, 8: 0.125}


# fullgraph: f32[6, 8]
def scaled(x):
    return x * SCALES.get(x.shape[0], 1.0)
