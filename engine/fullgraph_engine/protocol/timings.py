"""Messages about the time that each phase of a request takes."""

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
- ``staying``: keeping a copy of the process after the imports, to serve later texts with the same
  imports.
- ``module``: executing the statements after the imports.
- ``planning``: looking for example inputs of the targets.
- ``inputs``: building the arguments of a target.
- ``trace``: calling the target under Dynamo.
- ``findings``: deriving the findings from the trace.
- ``sending``: sending the findings to the server.
"""


@dataclass(frozen=True)
class PhaseTime:
    """Wall time and processor time, in seconds, that a process spent in one phase of a request."""

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
    """Total time and number of calls of one of Dynamo's own phases, from
    ``torch._dynamo.utils.compile_times``."""

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Timings:
    """Event: the time that each phase of a run took, or of a whole request if ``run`` is None.

    A run traces one target with one set of inputs. The event is sent only if the request asks for
    it. ``attempt`` is "fake" or "real" for the tensors of the run. If fake tensors did not suffice,
    there is one event for each attempt.
    """

    request: int
    run: Union[RunId, None]
    seconds: float
    phases: tuple[PhaseTime, ...]
    frames: tuple[FrameTime, ...] = ()
    dynamo: tuple[DynamoTime, ...] = ()
    attempt: Literal["", "fake", "real"] = ""
    cache_misses: Union[int, None] = None
    """Number of operator calls on fake tensors that torch's fake tensor cache did not contain; None
    if unknown."""
