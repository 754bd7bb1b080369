"""Values in probe notation: ``f32[4, 16]``, ``(i64[b], True)``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _abbreviations() -> dict[Any, str]:
    import torch.fx.graph

    return dict(torch.fx.graph.dtype_abbrs)  # type: ignore[attr-defined]


def dtype_name(dtype: Any) -> str:
    """``f32``, from ``torch.fx.graph.dtype_abbrs``, else the dtype's name without ``torch.``."""
    return _abbreviations().get(dtype, str(dtype).removeprefix("torch."))


def describe_tensor(tensor: Any) -> str:
    """``f32[4, s0]``, with ``@cuda`` where it is not on the CPU."""
    try:
        sizes = ", ".join(str(size) for size in tensor.shape)
        device = tensor.device.type
    except Exception:  # a subclass that hides its shape
        return type(tensor).__name__
    return f"{dtype_name(tensor.dtype)}[{sizes}]" + ("" if device == "cpu" else f"@{device}")


def describe_value(value: Any) -> str:
    """One short line for anything a graph node may hold; empty for nothing."""
    import torch

    if value is None:
        return ""
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        inner = ", ".join(describe_value(item) or "None" for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)[:80]
