"""Parts of a sequence with sizes in the code.

target: joined
call: torch.randn(2, 12, 8)
call: torch.randn(2, 9, 8)
call: torch.randn(2, 15, 8)
call: torch.randn(2, 18, 8)
line: x.split([4, 4, 4], dim=1)
"""


# fullgraph: f32[2, n=12, 8]
def joined(x):
    q, k, v = x.split([4, 4, 4], dim=1)
    return (q @ k.transpose(1, 2)).softmax(-1) @ v
