"""The size of each batch in the log.

target: Net()
call: torch.randn(6, 8)
call: torch.randn(5, 8)
call: torch.randn(9, 8)
call: torch.randn(7, 8)
line: logger.debug
"""

import logging

import torch.nn as nn

logger = logging.getLogger(__name__)


# fullgraph: init() forward(f32[6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        logger.debug(f"forward of {x.shape[0]} samples")
        return self.fc(x)
