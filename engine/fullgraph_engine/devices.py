"""Devices that this process uses."""

from __future__ import annotations


def in_use() -> bool:
    """Whether some kind of GPU was initialized."""
    import torch

    return bool(torch.cuda.is_initialized() or torch.xpu.is_initialized())
