"""Names of torch and sizes as a program writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ..values import Writing


def spelled(writing: Writing, value: Any) -> str:
    """``torch.float32``, ``torch.channels_last``, …"""
    return f"{writing.refer(torch)}.{str(value).removeprefix('torch.')}"


def commas(values: Sequence[int]) -> str:
    """``2, 3``."""
    return ", ".join(str(value) for value in values)


def as_arguments(sizes: Sequence[int]) -> str:
    """``2, 3``; ``()`` where there is no dimension."""
    return commas(sizes) if sizes else "()"


def as_tuple(sizes: Sequence[int]) -> str:
    """``(2, 3)`` or ``(2,)``."""
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({commas(sizes)})"
