"""Source text of the sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence


def comma_separated(values: Sequence[int]) -> str:
    """Return numbers as ``2, 3``."""
    return ", ".join(str(value) for value in values)


def as_arguments(sizes: Sequence[int]) -> str:
    """Return sizes as ``2, 3``, or ``()`` for a scalar."""
    return comma_separated(sizes) if sizes else "()"


def as_tuple(sizes: Sequence[int]) -> str:
    """Return sizes as ``(2, 3)`` or ``(2,)``."""
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({comma_separated(sizes)})"
