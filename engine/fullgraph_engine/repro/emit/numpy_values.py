"""Expressions that recreate NumPy arrays and scalars."""

from __future__ import annotations

import sys
from typing import Any

from .printer import Printer
from .tensors.strided import INLINE
from .unwritable import UnwritableValue


def is_numpy(value: object) -> bool:
    """Whether a value is a NumPy array, scalar or dtype; this does not import NumPy."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray, numpy.dtype))


def write_numpy_value(printer: Printer, value: Any, path: str | None) -> str:
    """Return an expression that recreates a NumPy value; large arrays become random numbers."""
    import numpy

    name = printer.refer_to(numpy)
    if isinstance(value, numpy.dtype):
        return f"{name}.dtype({value.str!r})"
    kind = str(value.dtype)
    if not hasattr(numpy, kind) or kind == "object":
        raise UnwritableValue(f"an array of numpy's {kind} cannot be written as code")
    if isinstance(value, numpy.generic):
        return f"{name}.{kind}({printer.expression(value.item(), None)})"
    dtype = f"dtype={name}.{kind}"
    shape = printer.expression(tuple(value.shape), None)
    if value.size <= INLINE:
        text = f"{name}.array({printer.expression(value.tolist(), None)}, {dtype})"
        flat = value.ndim < 2 or value.size
        return text if flat else f"{name}.zeros({shape}, {dtype})"
    if value.dtype.kind in "iu":
        low, high = int(value.min()), int(value.max())
        if low == high:
            return f"{name}.full({shape}, {low}, {dtype})"
        return f"{name}.random.randint({low}, {high + 1}, {shape}, {dtype})"
    if value.dtype.kind == "b":
        return f"{name}.random.rand({', '.join(map(str, value.shape))}) > 0.5"
    if value.dtype.kind in "fc":
        text = f"{name}.random.randn({', '.join(map(str, value.shape))})"
        return text if kind == "float64" else f"{text}.astype({name}.{kind})"
    raise UnwritableValue(f"a large array of numpy's {kind} cannot be written as code")
