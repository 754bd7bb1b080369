"""Results under names made of their sizes.

target: pyramid
call: torch.randn(2, 3, 8, 8)
call: torch.randn(2, 3, 12, 8)
call: torch.randn(2, 3, 16, 8)
call: torch.randn(2, 3, 20, 8)
line: str(x.shape[2])
meant: the names of the results are of the size
"""

import torch.nn.functional as F


# fullgraph: f32[2, 3, 8, 8]
def pyramid(x):
    small = F.avg_pool2d(x, 2)
    return {str(x.shape[2]): x, str(small.shape[2]): small}
