"""Calls that recompile: the call with the user's inputs, repeated with other inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import tracing
from ...protocol import Wanted
from ...targets import Call
from ...tracing import drive
from ...tracing.recording import Recording
from ...tracing.variations import Inputs
from .invocation import CallInputs

COUNT = 3
"""Number of calls to make after the first one."""

_AGAIN = {"recompile/every-call": COUNT, "guard/mutated": 1}
"""Number of calls after the first, by finding code, for findings that appear without changed
inputs.
"""
_SIZE = re.compile(r"(?P<leaf>.+)\.shape\[(?P<dim>\d+)\]")

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class RepeatedCalls:
    """A function and the arguments of several calls of it, in order."""

    function: Callable[..., Any]
    arguments: list[Arguments] = field(default_factory=list)

    @property
    def calls(self) -> tuple[CallInputs, ...]:
        """Inputs of the calls, as generated programs write them."""
        return tuple(CallInputs.from_arguments(args, kwargs) for args, kwargs in self.arguments)

    def trace_recompiles(self) -> list[Recording]:
        """Trace all calls; return the recordings of the calls that recompiled."""
        recordings = [drive.trace(self.function, args, kwargs) for args, kwargs in self.arguments]
        return [recording for recording in recordings if recording.recompiles]

    def call_eagerly(self) -> None:
        """Make all calls without Dynamo."""
        for args, kwargs in self.arguments:
            tracing.call_eagerly(self.function, args, kwargs)


def repeated_calls_of(wanted: Wanted, call: Call) -> RepeatedCalls | None:
    """Return the calls that show a predicted recompile, or None if their inputs are unknown."""
    inputs = Inputs(call.function, call.args, call.kwargs)
    again = _AGAIN.get(wanted.code, 0)
    if again:
        changes: list[tuple[dict[tuple[int, int], int], dict[int, Any]]] = [({}, {})] * again
    elif wanted.changed:
        changes = _changed_inputs(wanted.changed, inputs, call)
    else:
        return None
    if not changes:
        return None
    found = RepeatedCalls(call.function)
    for sizes, values in [({}, {}), *changes]:
        args, kwargs, _ = inputs.make_arguments(sizes, values)
        found.arguments.append((args, kwargs))
    return found


def _changed_inputs(
    names: Sequence[str], inputs: Inputs, call: Call
) -> list[tuple[dict[tuple[int, int], int], dict[int, Any]]]:
    leaves = {leaf.name: number for number, leaf in enumerate(inputs.leaves)}
    sizes = [match for match in map(_SIZE.fullmatch, names) if match is not None]
    places = [(leaves[m["leaf"]], int(m["dim"])) for m in sizes if m["leaf"] in leaves]
    if places:
        at, dim = places[0]
        first = int(inputs.leaves[at].value.shape[dim])
        for several in _larger_sizes(first, inputs):
            args, kwargs, _ = inputs.make_arguments(dict.fromkeys(places, several[0]))
            if _runs_eagerly(call.function, args, kwargs):
                return [(dict.fromkeys(places, size), {}) for size in several]
        return []
    (name,) = names[:1]
    value: Any = inputs.leaves[leaves[name]].value if name in leaves else None
    if type(value) not in (int, float):
        return []
    step = 1 if type(value) is int else 0.5
    return [({}, {leaves[name]: value + n * step}) for n in range(1, COUNT + 1)]


def _larger_sizes(size: int, inputs: Inputs) -> Iterator[list[int]]:
    """Yield lists of larger sizes with which to replace one size.

    They are slightly larger sizes, and multiples of ``size``.
    """
    taken = {
        int(length)
        for leaf in inputs.leaves
        if isinstance(leaf.value, torch.Tensor)
        for length in leaf.value.shape
    }
    for several in ([size + n for n in range(1, 99)], [size * n for n in range(2, 99)]):
        yield [length for length in several if length not in taken][:COUNT]


def _runs_eagerly(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    try:
        tracing.call_eagerly(function, args, kwargs)
    except BaseException:  # user code may raise anything
        return False
    return True
