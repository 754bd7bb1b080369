"""How long a target takes, as it is and compiled by Inductor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from .. import texts, tracing
from ..protocol import Measurement
from ..targets import ProbeError, Tracee, rng
from ..torch_internals import backends, dynamo
from ..tracing.drive import install_hooks, use_real_backends
from . import backend

_WARM = 3
"""Calls that are not counted: caches, and Inductor's second thoughts about sizes."""
_LEAST, _MOST = 5, 200
_SECONDS = 2.0
"""What the counted calls may take, both ways together."""


def measure(tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
    """Call a target in both ways by turns, in a process that ends with it. Real tensors only."""
    try:
        plain, fast = tracee.call(), tracee.call()
    except ProbeError as error:
        return Measurement(reason=str(error))
    begun = Measurement("cpu", torch.get_num_threads())

    def eager() -> Any:
        return tracing.call_eagerly(plain.function, plain.args, plain.kwargs)

    eager_only = [_seconds(eager) for _ in range(_WARM + _LEAST)][_WARM:]
    begun = replace(begun, eager=statistics.median(eager_only))
    refused = backend.prepare_inductor(let_start)
    if refused:
        return replace(begun, reason=refused)
    install_hooks()
    dynamo.reset()
    graphs = 0
    inductor = backends.find_backend("inductor")

    def counted(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return inductor(graph, inputs)

    def compiled() -> Any:
        return function(*fast.args, **fast.kwargs)

    with use_real_backends():
        function: Any = torch.compile(fast.function, backend=counted)
        try:
            first = _seconds(compiled)
        except Exception as error:
            return replace(begun, reason=f"Compiled, it raises {texts.described(error)}.")
        times = list(_by_turns((eager, compiled)))
    slow, quick = (statistics.median(one) for one in zip(*times, strict=True))
    return replace(
        begun, eager=slow, compiled=quick, compiling=max(0.0, first - quick), graphs=graphs
    )


def _by_turns(ways: tuple[Callable[[], Any], ...]) -> Iterator[tuple[float, ...]]:
    """Seconds of each way, turn by turn."""
    for _ in range(_WARM):
        for way in ways:
            _seconds(way)
    until = time.perf_counter() + _SECONDS
    for turn in range(_MOST):
        if turn >= _LEAST and time.perf_counter() > until:
            break
        yield tuple(_seconds(way) for way in ways)


def _seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    rng.begin_again()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
