"""Dynamo's settings and state, and the calls that it offers to users."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch._dynamo.config
import torch._dynamo.decorators
import torch._dynamo.utils

from ..protocol.timings import DynamoTime

config: Any = torch._dynamo.config
counters: Any = torch._dynamo.utils.counters

_times: dict[str, list[float]] = getattr(torch._dynamo.utils, "compilation_time_metrics", {})
"""What ``compile_times`` prints."""

reset = torch._dynamo.reset
disable: Any = torch._dynamo.disable
optimize = torch._dynamo.optimize
graph_break = torch._dynamo.graph_break
list_backends = torch._dynamo.list_backends
mark_dynamic = torch._dynamo.maybe_mark_dynamic
"""Try a dimension as symbolic: Dynamo may still specialize it."""
marks: dict[str, Any] = {
    "mark_dynamic": torch._dynamo.mark_dynamic,
    "maybe_mark_dynamic": torch._dynamo.maybe_mark_dynamic,
    "mark_unbacked": torch._dynamo.decorators.mark_unbacked,
    "mark_static": torch._dynamo.mark_static,
}
"""Functions that mark a dimension of a tensor, by name."""


def times() -> dict[str, int]:
    """How often Dynamo has taken the time of each of its phases."""
    return {name: len(taken) for name, taken in _times.items()}


def times_since(before: dict[str, int]) -> tuple[DynamoTime, ...]:
    """What its phases took since then; the longest first."""
    found = [
        DynamoTime(name, len(taken) - before.get(name, 0), sum(taken[before.get(name, 0) :]))
        for name, taken in _times.items()
        if len(taken) > before.get(name, 0)
    ]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def dynamic_dimensions(tensor: torch.Tensor) -> tuple[int, ...]:
    """Those that :func:`mark_dynamic` was called for."""
    return tuple(getattr(tensor, "_dynamo_weak_dynamic_indices", ()))
