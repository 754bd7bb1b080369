"""Functions with which code asks whether it is compiled; Dynamo evaluates their calls while it
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
    """Return the name of a function that reports whether its caller is compiled or exported.

    The result is empty for any other function.
    """
    return next((name for known, name in _FUNCTIONS if known is function), "")
