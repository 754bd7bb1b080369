"""Values of torch other than tensors and modules."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_internals import dispatcher
from .displays import literal_text
from .printer import Printer
from .tensors.layouts import size_hint

SINGLETONS = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
"""Classes whose instances are attributes of ``torch``, such as ``torch.float32``."""


def is_operator(value: object) -> bool:
    """Whether a value is an operator of torch or a function with ``functools.lru_cache``."""
    kind = type(value)
    return kind.__module__ in dispatcher.OPERATOR_MODULES or kind.__name__ == "_lru_cache_wrapper"


def write_device(printer: Printer, value: torch.device, path: str | None) -> str:
    """Return an expression like ``torch.device("cpu")``."""
    return f'torch.device("{value}")'


def write_symbol(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return the number that a symbolic integer, float or boolean had in the run; None if
    unknown.
    """
    return literal_text(size_hint(value))


def write_generator(printer: Printer, value: torch.Generator, path: str | None) -> str:
    """Return an expression for a new generator with the same seed."""
    where = "" if value.device.type == "cpu" else f'device="{value.device}"'
    made = f"torch.Generator({where})"
    seed = value.initial_seed()
    return made if seed == torch.Generator().initial_seed() else f"{made}.manual_seed({seed})"


def write_limits(printer: Printer, value: Any, path: str | None) -> str:
    """Return an expression like ``torch.finfo(torch.float32)``."""
    return f"torch.{type(value).__name__}(torch.{value.dtype})"
