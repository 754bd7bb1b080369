"""What crosses the pipe about where the time of a request goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .runs import RunId

Phase = Literal[
    "waiting",
    "process",
    "reading",
    "imports",
    "staying",
    "module",
    "planning",
    "inputs",
    "trace",
    "findings",
    "sending",
]
"""In this order.

- ``waiting``: behind other requests.
- ``process``: until a process has begun with it, which was started, or forked off another one.
- ``reading``: parsing the text and looking for targets.
- ``imports``: the statements of the text down to the last import at its beginning.
- ``staying``: getting ready to serve later texts that begin with the same.
- ``module``: the rest of the text.
- ``planning``: looking for probes.
- ``inputs``: making what a target is called with.
- ``trace``: its call, with everything that Dynamo does.
- ``findings``: what follows from that.
- ``sending``: reporting it.
"""


@dataclass(frozen=True)
class PhaseTime:
    """Seconds of wall time, and of processor time in the process that the phase is of."""

    phase: Phase
    seconds: float
    cpu: float = 0.0


@dataclass(frozen=True)
class FrameTime:
    """One compilation of a frame by Dynamo, in seconds of wall time. The line is zero-based."""

    function: str
    path: str
    line: int
    outcome: Literal["compiled", "skipped", "failed"]
    seconds: float


@dataclass(frozen=True)
class DynamoTime:
    """What ``torch._dynamo.utils.compile_times`` knows: all calls of one of its own phases."""

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Timings:
    """Where the time of a run went, or that of a whole request if ``run`` is None. Only for those
    who ask for it. ``attempt`` is "real" for a run with real tensors, and where fake ones did not
    do there are both."""

    request: int
    run: Union[RunId, None]
    seconds: float
    phases: tuple[PhaseTime, ...]
    frames: tuple[FrameTime, ...] = ()
    dynamo: tuple[DynamoTime, ...] = ()
    attempt: Literal["", "fake", "real"] = ""
    cache_misses: Union[int, None] = None
    """Calls of operators on fake tensors whose results torch had not kept from an earlier one."""
