"""Make torch report zero GPUs in processes that do not use one."""

from __future__ import annotations

import torch


def report_no_gpu() -> None:
    """Make ``torch.cuda.device_count`` return 0 without a query, in this process and its forks.

    torch queries the CUDA driver in nearly every trace (``torch.cuda.is_available``), and after a
    query the forks of a process cannot use CUDA. The setting also applies if a file changes
    ``CUDA_VISIBLE_DEVICES``.
    """
    torch.cuda._cached_device_count = 0
