"""Another way of computing for one size.

target: chosen
call: torch.randn(6, 8)
call: torch.randn(4, 8)
call: torch.randn(5, 8)
call: torch.randn(7, 8)
call: torch.randn(4, 8)
line: if x.shape[0] == 4
meant: four rows are a case of their own
"""


# fullgraph: f32[4, 8]
def chosen(x):
    if x.shape[0] == 4:
        return x.view(2, 2, 8).sum(1)
    return x.cumsum(0)
