"""What torch knows of GPUs, for processes that use none."""

from __future__ import annotations

import torch


def never_ask() -> None:
    """Have torch count no GPU in this process and its forks, whatever a file puts into
    ``CUDA_VISIBLE_DEVICES``.

    A process that asks the driver leaves its forks without CUDA, and torch asks it in nearly every
    trace (``torch.cuda.is_available``).
    """
    torch.cuda._cached_device_count = 0
