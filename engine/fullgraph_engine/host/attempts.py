"""Attempts to perform a run (a trace of one target with one set of inputs), and their results, as
plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..protocol import Finding, GivenCall, Mode, Part, TargetReport, TraceMode
from .blackbox import LastWords
from .wire import BranchAnswer, BranchBegun, PlannedRun, RunDone

OBSERVING: tuple[Part, ...] = (
    "cases",
    "behavior",
    "behavior-again",
    "prepare",
    "measure",
    "numerics",
)
"""Kinds of runs that execute a target instead of tracing it. They report only whether the execution
succeeded."""

ADDING: tuple[Part, ...] = ("second", "export")
"""Kinds of runs that look for more findings after the first run, and send nothing else."""


@dataclass(frozen=True)
class Attempt:
    """One attempt to perform a run: a target with one set of inputs, and fake or real tensors.

    A run may need several attempts, for example first with fake and then with real tensors.
    ``answers`` are results of functions that earlier processes of the same run evaluated for it.
    """

    plan: PlannedRun
    mode: Mode
    part: Part
    answers: tuple[BranchAnswer, ...] = ()
    known: str = ""
    """Facts that the first trace with the same inputs has recorded, encoded as text, for a run that
    traces alternative execution paths; otherwise empty."""
    again: bool = False
    """True if the kernel or another program killed an earlier process of this run, so that the run
    is repeated once."""
    speculative: bool = False
    """True if the run is started early, on an idle processor, to compute one answer for a later
    run, which may turn out not to need it."""

    @property
    def trace_mode(self) -> TraceMode:
        return "real" if self.mode == "real" else "fake"

    @property
    def makes_report(self) -> bool:
        """Whether the server expects a report of the target from this run, even if the run cannot
        begin."""
        return self.part in ("first", "candidates", *OBSERVING)


@dataclass
class RunResult:
    """The messages that the process of one run has sent so far."""

    attempt: Attempt
    call: GivenCall | None = None
    """Digest of the arguments recorded at a real call, if the run traces such a call; None
    otherwise."""
    done: RunDone | None = None
    question: BranchBegun | None = None
    """Function that the process evaluates for another process of the same run, after which it ends;
    None for a process that completes the run."""
    answer: BranchAnswer | None = None
    forecast_sent: bool = False
    seen: list[bytes] = field(default_factory=list)
    """Encoded messages with the values, shapes, guards and trace steps of the run, which the server
    receives when the run ends."""
    findings: dict[str, Finding] = field(default_factory=dict)
    """Diagnostics that the run has reported so far, by ``Finding.identity``."""

    @property
    def numbered_report(self) -> TargetReport | None:
        """Report of the run, with the number of its inputs and the digest of the recorded call;
        None if the run was not completed."""
        if self.done is None:
            return None
        return replace(self.done.report, probe_number=self.attempt.plan.probe, called=self.call)


@dataclass(frozen=True)
class RunEnd:
    """The end of a run (a process that traced one target), after its last message was read."""

    number: int
    result: RunResult
    cause: str
    """Clause for the user that explains why the process of the run ended."""
    words: LastWords
    seconds: float
    """Seconds from the start of the run (a trace of one target) to the end of its process."""
    waited: float = 0.0
    """Part of ``seconds`` in which the process waited for a processor; 0 if unknown."""
    late: bool = False
    """True if the engine ended the process at its time limit."""
    repeats: bool = False
    """True if a repeated run would reach the time limit as well, because the process was slow by
    itself: it hardly waited for a processor."""
    killed: bool = False
    """True if the process was killed from outside the engine, such as by the kernel when memory
    runs out."""
    answer: BranchAnswer | None = None
    """Result of the function in ``result.question``, or the reason for its absence; None for a
    process that was not started to evaluate a function."""

    @property
    def reason(self) -> str:
        """Clause for the user that explains why the run's result is incomplete or an error."""
        done = self.result.done
        return (
            self.cause
            if done is None
            else done.report.error or "the process of the run ended without a result"
        )
