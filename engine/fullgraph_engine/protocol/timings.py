"""Messages about where the time of a request goes."""

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
"""Phase of a request, in this order.

- ``waiting``: for other requests.
- ``process``: until a process, started or forked, begins to work on the request.
- ``reading``: parsing the text and looking for targets.
- ``imports``: statements up to the last import at the beginning of the text.
- ``staying``: preparing to serve later texts with the same beginning.
- ``module``: the rest of the text.
- ``planning``: looking for probes.
- ``inputs``: building the arguments of a target.
- ``trace``: its call, with everything that Dynamo does.
- ``findings``: deriving the findings.
- ``sending``: reporting them.
"""


@dataclass(frozen=True)
class PhaseTime:
    """Seconds of wall time and of processor time, both in the process of the phase."""

    phase: Phase
    seconds: float
    cpu: float = 0.0


@dataclass(frozen=True)
class FrameTime:
    """Wall time in seconds of one compilation of a frame by Dynamo; ``line`` is zero-based."""

    function: str
    path: str
    line: int
    outcome: Literal["compiled", "skipped", "failed"]
    seconds: float


@dataclass(frozen=True)
class DynamoTime:
    """Time of one of Dynamo's own phases, from ``torch._dynamo.utils.compile_times``."""

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Timings:
    """Event: where the time of a run went, or of a whole request if ``run`` is None.

    It is sent only on request. ``attempt`` is "real" for a run with real tensors; if fake tensors
    did not suffice, there is one event for each.
    """

    request: int
    run: Union[RunId, None]
    seconds: float
    phases: tuple[PhaseTime, ...]
    frames: tuple[FrameTime, ...] = ()
    dynamo: tuple[DynamoTime, ...] = ()
    attempt: Literal["", "fake", "real"] = ""
    cache_misses: Union[int, None] = None
    """Number of operator calls on fake tensors that torch's fake tensor cache could not answer."""
