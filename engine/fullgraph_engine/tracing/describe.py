"""Format values in probe notation: ``f32[4, 16]``, ``(i64[b], True)``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _abbreviations() -> dict[Any, str]:
    import torch.fx.graph

    return dict(torch.fx.graph.dtype_abbrs)  # type: ignore[attr-defined]


def dtype_name(dtype: Any) -> str:
    """Return the short name of a dtype, such as ``f32``, from ``torch.fx.graph.dtype_abbrs``.

    A dtype without an abbreviation keeps its name, without ``torch.``.
    """
    return _abbreviations().get(dtype, str(dtype).removeprefix("torch."))


def describe_tensor(tensor: Any) -> str:
    """Format a tensor as ``f32[4, s0]``, with ``@cuda`` if it is not on the CPU."""
    try:
        sizes = ", ".join(str(size) for size in tensor.shape)
        device = tensor.device.type
    except Exception:  # a tensor subclass that hides its shape
        return type(tensor).__name__
    return f"{dtype_name(tensor.dtype)}[{sizes}]" + ("" if device == "cpu" else f"@{device}")


def describe_value(value: Any) -> str:
    """Format any value of a graph node in one short line; None becomes an empty string."""
    import torch

    if value is None:
        return ""
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        inner = ", ".join(describe_value(item) or "None" for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)[:80]
