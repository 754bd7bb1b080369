"""Attempts to perform a run, and their results, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..protocol import Finding, GivenCall, Mode, Part, TargetReport, TraceMode
from .blackbox import LastWords
from .wire import BranchAnswer, BranchBegun, PlannedRun, RunDone

OBSERVING: tuple[Part, ...] = ("cases", "behavior", "behavior-again", "measure")
"""Kinds of runs that execute a target instead of tracing it. Each ends with a report of the
target's status."""


@dataclass(frozen=True)
class Attempt:
    """A run to launch: its target and inputs, its mode (fake or real tensors), and ``answers``, the
    results that earlier processes of the same run computed."""

    plan: PlannedRun
    mode: Mode
    part: Part
    answers: tuple[BranchAnswer, ...] = ()
    known: str = ""
    """Encoded state of the first traced run with the same inputs, if this run traces further
    execution paths; otherwise empty."""
    again: bool = False
    """True if an earlier process of this run was killed from outside the engine, so that the run is
    repeated once."""
    speculative: bool = False
    """True if the run was started early, when idle processors allowed it, and only computes the
    first answer for a later run. The later run may not need the answer."""

    @property
    def trace_mode(self) -> TraceMode:
        return "real" if self.mode == "real" else "fake"

    @property
    def makes_report(self) -> bool:
        """Whether the run must report a status of its target, even if it could not begin."""
        return self.part in ("first", "candidates", *OBSERVING)


@dataclass
class RunResult:
    """Messages that the process of one run has sent so far."""

    attempt: Attempt
    call: GivenCall | None = None
    """Digest of the recorded call that the run traces; None without a recorded call."""
    done: RunDone | None = None
    question: BranchBegun | None = None
    """Question that the process was forked to answer, if it ends after the answer; None for a
    process that continues until the run is complete."""
    answer: BranchAnswer | None = None
    forecast_sent: bool = False
    seen: list[bytes] = field(default_factory=list)
    """Encoded messages with the values, shapes, guards and trace steps of the run. They are held
    back until the run ends."""
    findings: dict[str, Finding] = field(default_factory=dict)
    """Findings that the run has reported so far, by ``Finding.identity``."""

    @property
    def numbered_report(self) -> TargetReport | None:
        """Report of the run with the number of its inputs and the digest of its recorded call; None
        if the run was not completed."""
        if self.done is None:
            return None
        return replace(self.done.report, probe_number=self.attempt.plan.probe, called=self.call)


@dataclass(frozen=True)
class RunEnd:
    """The end of one run's process, after its last message was read."""

    number: int
    result: RunResult
    cause: str
    """Clause that explains to the user why the process ended."""
    words: LastWords
    seconds: float
    """Seconds from the start of the run to the end of its process."""
    late: bool = False
    """True if the engine ended the process because its time was used up."""
    killed: bool = False
    """True if something other than the engine or the process itself ended the process."""
    answer: BranchAnswer | None = None
    """Answer to ``result.question``, or the reason why it is missing; None without a question."""

    @property
    def reason(self) -> str:
        """Clause that explains why the result is incomplete or an error."""
        done = self.result.done
        return self.cause if done is None else done.report.error or "it reported nothing"
