"""Steps counted in a global variable.

target: noisy
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
call: torch.randn(6, 8)
line: STEP += 1
"""

STEP = 0


# fullgraph: f32[6, 8]
def noisy(x):
    global STEP
    STEP += 1
    return x.relu()
