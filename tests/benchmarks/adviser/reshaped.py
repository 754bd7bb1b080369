"""All pixels in one row, their number written as a product.

target: pixels
call: torch.randn(4, 6, 3)
call: torch.randn(5, 6, 3)
call: torch.randn(7, 6, 3)
call: torch.randn(9, 6, 3)
line: x.reshape(24, 3)
"""


# fullgraph: f32[4, 6, 3], f32[3]
def pixels(x, color=None):
    flat = x.reshape(24, 3)
    return flat.mean(1) if color is None else flat @ color
