"""Tasks that the plan of an analysis returns: launch or stop a run, or send a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ..protocol import GivenCall
from ..protocol.paths import PathStatus
from .attempts import Attempt, RunEnd, RunResult
from .wire import LaunchEnclosingRun, LaunchRun, PlannedRun, RunDone

EnclosingKey = tuple[int, bool]
"""Number of an enclosing run (a run of several targets' callers) in the user's file, and whether it
uses real tensors."""


@dataclass(frozen=True)
class Launch:
    """Task: launch a run, as a fork of the snapshot of an enclosing run at the recorded ``call``,
    or as a fork of the module process if ``enclosing`` is None."""

    command: LaunchRun
    attempt: Attempt
    enclosing: EnclosingKey | None = None
    call: GivenCall | None = None


@dataclass(frozen=True)
class LaunchEnclosing:
    """Task: launch an enclosing run."""

    command: LaunchEnclosingRun
    key: EnclosingKey


@dataclass(frozen=True)
class StopRun:
    """Task: kill the process of a run whose result is not needed."""

    number: int


@dataclass(frozen=True)
class ReportRun:
    """Task: report the result of a run that traced a target. ``before`` is the attempt in another
    mode that the run replaces, or None."""

    end: RunEnd
    before: RunResult | None = None


@dataclass(frozen=True)
class ReportObservation:
    """Task: report that a run has executed a target without tracing it."""

    result: RunResult


@dataclass(frozen=True)
class ReportUnstarted:
    """Task: report that a run never began. ``lost`` is the reason for the additional finding that
    the target could not be traced; empty if there is none."""

    attempt: Attempt
    error: str
    lost: str = ""


@dataclass(frozen=True)
class ReportSkipped:
    """Task: report that a target is not traced, because the time limit of the file is reached."""

    plan: PlannedRun


@dataclass(frozen=True)
class ReportMissingForecast:
    """Task: explain to the user why a forecast is missing; ``note`` is a sentence."""

    plan: PlannedRun
    note: str


@dataclass(frozen=True)
class ReportPaths:
    """Task: report the first run of a target again, with its further execution paths."""

    first: RunResult
    done: RunDone


@dataclass(frozen=True)
class ReportMissingPaths:
    """Task: report the first run of a target again, with the reason why its further execution paths
    were not traced, or only in part."""

    first: RunResult
    status: PathStatus
    reason: str


@dataclass(frozen=True)
class ReportEqualCalls:
    """Task: report that a target is not traced because other code called it with the same arguments
    as before; ``sources`` describes each call."""

    plan: PlannedRun
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Finish:
    """Task: end the analysis, since all its runs have ended."""


Task = Union[
    Launch,
    LaunchEnclosing,
    StopRun,
    ReportRun,
    ReportObservation,
    ReportUnstarted,
    ReportSkipped,
    ReportMissingForecast,
    ReportPaths,
    ReportMissingPaths,
    ReportEqualCalls,
    Finish,
]
