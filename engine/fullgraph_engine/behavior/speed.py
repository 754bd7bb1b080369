"""Measure how long a function or module takes in eager mode and compiled by Inductor."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from .. import texts, tracing
from ..protocol import Measurement
from ..targets import ProbeError, Tracee, rng
from ..torch_internals import backends, dynamo
from ..torch_internals.fake_tensors import TorchDispatchMode
from ..tracing.drive import install_hooks, use_real_backends
from . import backend

_WARM_UP_CALLS = 3
"""Number of uncounted first calls, while caches fill and Inductor recompiles for other sizes."""
_MIN_TURNS, _MAX_TURNS = 5, 200
_MAX_SECONDS = 2.0
"""Maximum seconds for the counted eager and compiled calls together."""


def measure_calls(tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
    """Measure the times of eager and of compiled calls of a function or module, with real tensors.

    ``tracee`` is the function or module. ``let_start`` is called with names of programs that
    Inductor starts, such as a C++ compiler, and permits this process to start them. Return the
    measured times; the caller must end this process afterwards.
    """
    try:
        eager_call, compiled_call = tracee.call(), tracee.call()
    except ProbeError as error:
        return Measurement(reason=str(error))
    measurement = Measurement("cpu", torch.get_num_threads())

    def call_eager() -> Any:
        return tracing.call_eagerly(eager_call.function, eager_call.args, eager_call.kwargs)

    eager_only = [_call_seconds(call_eager) for _ in range(_WARM_UP_CALLS + _MIN_TURNS)][
        _WARM_UP_CALLS:
    ]
    costliest, share = _costliest_operator(call_eager)
    measurement = replace(
        measurement, eager=statistics.median(eager_only), costliest=costliest, share=share
    )
    refused = backend.prepare_inductor(let_start)
    if refused:
        return replace(measurement, reason=refused)
    install_hooks()
    dynamo.reset()
    graphs = 0
    inductor = backends.find_backend("inductor")

    def count_graphs(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return inductor(graph, inputs)

    def call_compiled() -> Any:
        return function(*compiled_call.args, **compiled_call.kwargs)

    with use_real_backends():
        function: Any = torch.compile(compiled_call.function, backend=count_graphs)
        try:
            began = time.perf_counter()
            _call_seconds(call_compiled)
            first = time.perf_counter() - began
        except Exception as error:
            return replace(
                measurement, reason=f"A compiled call raises {texts.type_and_message(error)}."
            )
        times = list(_measure_by_turns((call_eager, call_compiled)))
    slow, quick = (statistics.median(seconds) for seconds in zip(*times, strict=True))
    return replace(
        measurement, eager=slow, compiled=quick, compiling=max(0.0, first - quick), graphs=graphs
    )


class _OperatorTimes(TorchDispatchMode):
    """Adds up the processor seconds that each ATen operator takes, by its name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        began = time.thread_time()
        result = func(*args, **(kwargs or {}))
        self.seconds[str(func.overloadpacket)] += time.thread_time() - began
        return result


def _costliest_operator(call: Callable[[], Any]) -> tuple[str, float]:
    """Return the operator that takes longest in an eager call, and its share of the seconds of all
    operators; ("", 0.0) if a call executes none."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(_MIN_TURNS):
        with _OperatorTimes() as times:
            _call_seconds(call)
        for name, taken in times.seconds.items():
            seconds[name].append(taken)
    if not seconds:
        return "", 0.0
    # A median ignores the calls during which the machine did other work.
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    costliest = max(medians, key=medians.__getitem__)
    return costliest, medians[costliest] / sum(medians.values())


def _measure_by_turns(ways: tuple[Callable[[], Any], ...]) -> Iterator[tuple[float, ...]]:
    """Call each of the functions ``ways`` once per turn, and yield the processor seconds that each
    call took in the turn.
    """
    for _ in range(_WARM_UP_CALLS):
        for way in ways:
            _call_seconds(way)
    until = time.perf_counter() + _MAX_SECONDS
    for turn in range(_MAX_TURNS):
        if turn >= _MIN_TURNS and time.perf_counter() > until:
            break
        yield tuple(_call_seconds(way) for way in ways)


def _call_seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of one call, in seconds.

    torch uses one thread here, so this is the wall time without the time during which other
    processes use the processor. While a limit of processor time is set with ``setitimer``, Linux
    updates the clock of the process only every few milliseconds, but the clock of the thread at
    each reading.
    """
    rng.seed_generators()
    began = time.thread_time()
    call()
    return time.thread_time() - began
