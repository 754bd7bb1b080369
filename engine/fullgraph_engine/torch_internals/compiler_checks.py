"""Functions by which code asks whether it is compiled: Dynamo evaluates calls of them while it
traces."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo.external_utils

from .binding import internal

CALL = internal(
    "compiler checks",
    "code that only runs with or without `torch.compile`",
    "torch._dynamo.variables.torch",
    "TorchInGraphFunctionVariable.call_function",
)

INTERNALS = (CALL,)

_FUNCTIONS: tuple[tuple[Any, str], ...] = tuple(
    (getattr(module, name), f"{shown}.{name}")
    for module, shown in (
        (torch.compiler, "torch.compiler"),
        (torch._dynamo.external_utils, "torch._dynamo"),
    )
    for name in ("is_compiling", "is_dynamo_compiling", "is_exporting")
    if hasattr(module, name)
)


def name_of(function: Any) -> str:
    """The name of a function that answers whether its caller is compiled or exported; empty for any
    other function."""
    return next((name for known, name in _FUNCTIONS if known is function), "")
