"""Tasks that the plan of an analysis returns: launch or stop a run, or send a report.

A run is a process that traces one target (a function or module class) with one set of inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ..protocol import Compilation, GivenCall, TargetReport
from ..protocol.paths import PathStatus
from .attempts import Attempt, RunEnd, RunResult
from .wire import LaunchEnclosingRun, LaunchRun, PlannedRun, RunDone

EnclosingKey = tuple[int, bool]
"""Key of an enclosing run (a process that executes callers of targets to record their inputs): its
number in the user's file, and whether it uses real tensors."""


@dataclass(frozen=True)
class Launch:
    """Task: launch a run, which traces one target.

    If ``enclosing`` is None, the run is forked from the process that executed the user's file.
    Otherwise it is forked from a snapshot: a copy of the process that executes the target's
    callers, which waits at the recorded ``call``.
    """

    command: LaunchRun
    attempt: Attempt
    enclosing: EnclosingKey | None = None
    call: GivenCall | None = None


@dataclass(frozen=True)
class LaunchEnclosing:
    """Task: start a process that executes callers of targets, and forks a waiting copy of itself
    (snapshot) at each call of a target."""

    command: LaunchEnclosingRun
    key: EnclosingKey


@dataclass(frozen=True)
class StopRun:
    """Task: kill the process of a run (a trace of one target) whose result is not needed."""

    number: int


@dataclass(frozen=True)
class ReportRun:
    """Task: report the result of a run that traced a target.

    ``before`` is the earlier attempt with the other kind of tensors (fake or real) that this run
    replaces, or None.
    """

    end: RunEnd
    before: RunResult | None = None


@dataclass(frozen=True)
class ReportObservation:
    """Task: report the end of a run that only executed or measured a target, without tracing it."""

    result: RunResult


@dataclass(frozen=True)
class ReportUnstarted:
    """Task: report that a run never began.

    ``lost`` is the reason for an additional finding that the target could not be traced; empty for
    no finding.
    """

    attempt: Attempt
    error: str
    lost: str = ""


@dataclass(frozen=True)
class ReportWithin:
    """Task: report that a target is not traced separately, because the trace of ``caller``, another
    target, includes it."""

    plan: PlannedRun
    caller: TargetReport


@dataclass(frozen=True)
class ReportSkipped:
    """Task: report that a target (a function or module class) is not traced, because the time limit
    of the file is reached."""

    plan: PlannedRun


@dataclass(frozen=True)
class ReportMissingForecast:
    """Task: explain to the user why a forecast is missing; ``note`` is a sentence."""

    plan: PlannedRun
    note: str


@dataclass(frozen=True)
class ReportLostRun:
    """Task: report that a run for more findings, after the first run, was lost before it
    completed."""

    attempt: Attempt


@dataclass(frozen=True)
class ReportPaths:
    """Task: send the report of a target's first run again, now with the alternative execution paths
    that were traced."""

    first: RunResult
    done: RunDone


@dataclass(frozen=True)
class ReportMissingPaths:
    """Task: send the report of a target's first run again, with the reason why alternative
    execution paths are missing or incomplete."""

    first: RunResult
    status: PathStatus
    reason: str


@dataclass(frozen=True)
class ReportCompilation:
    """Task: send the report of a target's first run again, now with the result of compiling it."""

    first: RunResult
    compilation: Compilation


@dataclass(frozen=True)
class ReportMissingCompilation:
    """Task: report that the compilation of a target did not complete; ``reason`` is a clause."""

    first: RunResult
    attempt: Attempt
    reason: str


@dataclass(frozen=True)
class ReportEqualCalls:
    """Task: report that a target is not traced again, because its callers pass the same arguments
    as in an earlier analysis.

    ``sources`` describes each call for the user.
    """

    plan: PlannedRun
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Finish:
    """Task: end the analysis, because all its runs (traces of targets) have ended."""


Task = Union[
    Launch,
    LaunchEnclosing,
    StopRun,
    ReportRun,
    ReportObservation,
    ReportUnstarted,
    ReportSkipped,
    ReportWithin,
    ReportMissingForecast,
    ReportLostRun,
    ReportPaths,
    ReportMissingPaths,
    ReportCompilation,
    ReportMissingCompilation,
    ReportEqualCalls,
    Finish,
]
