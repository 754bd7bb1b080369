"""Dynamo's settings, counters and timings, and the functions of ``torch._dynamo`` for users."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.config
import torch._dynamo.decorators
import torch._dynamo.utils
import torch._inductor.config

from ..protocol.timings import DynamoTime

config: Any = torch._dynamo.config
counters: Any = torch._dynamo.utils.counters

_seconds_by_phase: dict[str, list[float]] = getattr(
    torch._dynamo.utils, "compilation_time_metrics", {}
)
"""Durations in seconds that Dynamo measured, by compilation phase;
``torch._dynamo.utils.compile_times`` prints them.
"""

reset = torch._dynamo.reset
disable: Any = torch._dynamo.disable
optimize = torch._dynamo.optimize
graph_break = torch._dynamo.graph_break
list_backends = torch._dynamo.list_backends
mark_dynamic = torch._dynamo.maybe_mark_dynamic
"""Function that marks a dimension to be tried as symbolic; Dynamo can still specialize it."""
marks: dict[str, Any] = {
    "mark_dynamic": torch._dynamo.mark_dynamic,
    "maybe_mark_dynamic": torch._dynamo.maybe_mark_dynamic,
    "mark_unbacked": torch._dynamo.decorators.mark_unbacked,
    "mark_static": torch._dynamo.mark_static,
}
"""Functions that mark a dimension of a tensor, by the name that probe comments use."""


def phase_counts() -> dict[str, int]:
    """Return how many durations Dynamo has measured so far, for each of its compilation phases."""
    return {name: len(seconds) for name, seconds in _seconds_by_phase.items()}


def phase_times_since(before: dict[str, int]) -> tuple[DynamoTime, ...]:
    """Return the seconds that each compilation phase of Dynamo took since an earlier moment.

    Longest phases first. ``before`` is the result of :func:`phase_counts` at that moment.
    """
    found = [
        DynamoTime(name, len(seconds) - before.get(name, 0), sum(seconds[before.get(name, 0) :]))
        for name, seconds in _seconds_by_phase.items()
        if len(seconds) > before.get(name, 0)
    ]
    return tuple(sorted(found, key=lambda phase: -phase.seconds))


def is_compiled(function: Any) -> bool:
    """Whether ``torch.compile`` returned this function or module."""
    return hasattr(function, "_torchdynamo_orig_callable") or isinstance(
        function, torch._dynamo.OptimizedModule
    )


def original_function(function: Any) -> Any:
    """Return the function or module that ``torch.compile`` was called with to get ``function``;
    other functions are returned unchanged.
    """
    if isinstance(function, torch._dynamo.OptimizedModule):
        return function._orig_mod
    return getattr(function, "_torchdynamo_orig_callable", function)


@contextlib.contextmanager
def unchanged_config() -> Iterator[None]:
    """Restore the settings of ``torch._dynamo.config`` at the end of the ``with`` block."""
    copy_settings = getattr(config, "get_config_copy", None) or config.shallow_copy_dict
    before: dict[str, Any] = copy_settings()
    try:
        yield
    finally:
        after = copy_settings()
        for name, value in before.items():
            if name in after and after[name] != value:
                setattr(config, name, value)


@contextlib.contextmanager
def eager_random_numbers() -> Iterator[None]:
    """Make Inductor draw the same random numbers as eager mode inside the ``with`` block."""
    with torch._inductor.config.patch(fallback_random=True):
        yield


def dynamic_dimensions(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the dimensions of a tensor that :func:`mark_dynamic` has marked."""
    return tuple(getattr(tensor, "_dynamo_weak_dynamic_indices", ()))
