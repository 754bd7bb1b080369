"""Dynamo's settings and state, and the calls that it offers to users."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch._dynamo.config
import torch._dynamo.utils

config: Any = torch._dynamo.config
counters: Any = torch._dynamo.utils.counters

reset = torch._dynamo.reset
disable: Any = torch._dynamo.disable
optimize = torch._dynamo.optimize
graph_break = torch._dynamo.graph_break
list_backends = torch._dynamo.list_backends
mark_dynamic = torch._dynamo.maybe_mark_dynamic
"""Try a dimension as symbolic: Dynamo may still specialize it."""


def dynamic_dimensions(tensor: torch.Tensor) -> tuple[int, ...]:
    """Those that :func:`mark_dynamic` was called for."""
    return tuple(getattr(tensor, "_dynamo_weak_dynamic_indices", ()))
