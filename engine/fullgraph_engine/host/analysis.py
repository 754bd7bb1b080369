"""Handle an ``Analyze`` request: start the process that executes the user's module and the runs
that trace its targets, and send their results to the server."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace

from .. import devices
from ..protocol import (
    Analyze,
    Analyzed,
    CalledAgain,
    DocumentsWritten,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    FoundProbe,
    Frame,
    GivenCalls,
    GuardsFound,
    Importing,
    Log,
    Measured,
    Mode,
    OperatorsRegistered,
    Part,
    PathReport,
    Range,
    RunId,
    ShapesFound,
    Status,
    TargetDone,
    TargetReport,
    TargetsFound,
    TargetStarted,
    Timings,
    TraceMode,
    TracePath,
    TraceStepsFound,
    ValuesSeen,
    hide_unseen_counts,
    place_words,
)
from ..protocol.files import FilesRead
from ..protocol.paths import PathStatus
from ..protocol.timings import PhaseTime
from . import blackbox, frames, shortage, syntax, wire
from .blackbox import LastWords
from .module_process import line_distance
from .process_backends import (
    EnclosingProcess,
    LaunchedProcess,
    ModuleProcess,
    branches,
    limits,
    processes,
)
from .services import Services
from .speculation import Expected
from .supervision import (
    ANSWER_SECONDS,
    Cause,
    Supervisor,
    WatchedProcess,
    explain_end,
    was_ended_outside,
)
from .wire import (
    PACKAGES,
    BackendTried,
    BranchAnswer,
    BranchBegun,
    CandidatesMade,
    CasesChosen,
    ChildExited,
    ChildForked,
    ForkFailed,
    LateImports,
    LaunchEnclosingRun,
    LaunchRun,
    ModuleOrder,
    OperatorCalls,
    PhasesTaken,
    PlannedRun,
    PreambleStale,
    RunDone,
    RunsPlanned,
    SkippedStatement,
    SnapshotTaken,
    Stage,
    StageBegun,
    TextUnparsable,
    Upward,
)

_MODULE_ANSWER_SECONDS = 2.0
"""Maximum seconds between the interruption of a module process at its deadline and its kill.
Meanwhile it executes the remaining statements."""
_MOST_ATTEMPTS = 4
_MODULE_ENDED = "the process that had executed the module ended"

_TOLD = (
    FindingFound,
    ForecastFound,
    DocumentsWritten,
    CandidatesMade,
    CasesChosen,
    BackendTried,
    Measured,
    FilesRead,
    Timings,
    Log,
)
"""Types of messages that the server receives as soon as a run has sent them."""

_SEEN = (ValuesSeen, ShapesFound, GuardsFound, TraceStepsFound)
"""Types of messages of a run that wait until the run ends. If the run is repeated in another mode,
only the last attempt's messages are forwarded."""

_OBSERVING: tuple[Part, ...] = ("cases", "behavior", "behavior-again", "measure")
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


@dataclass
class LaunchedRun:
    """A run whose process was requested; ``watched.pid`` is 0 until the process has been forked."""

    attempt: Attempt
    watched: WatchedProcess
    snapshot_of: EnclosingRun | None = None
    """Enclosing run (a run of the target's callers) whose forked copy became this run; None for a
    fork of the module process."""
    done: RunDone | None = None
    branching: BranchBegun | None = None
    """Question that this process was forked to answer, if it ends after the answer; None for a
    process that continues until the run is complete."""
    answer: BranchAnswer | None = None
    foretold: bool = False
    seen: list[bytes] = field(default_factory=list)
    """Encoded messages with the values, shapes, guards and trace steps of the run. They are held
    back until the run ends."""
    findings: dict[str, Finding] = field(default_factory=dict)
    """Findings that the run has reported so far, by ``Finding.identity``."""


@dataclass
class Speculation:
    """A run that traces a target's further execution paths in advance, while the target's first run
    has not yet ended."""

    attempt: Attempt
    found: FoundProbe | None
    """Inputs that a search had found for the target when the speculative run was launched; None
    without a search result."""
    answer: BranchAnswer | None = None
    over: bool = False
    wanted: Attempt | None = None
    """The planned run that needs the speculation's answer and is launched when the answer arrives;
    None until then."""


@dataclass
class EnclosingRun:
    """A run that executes the callers of several targets once. At each call of a target, it forks a
    copy of the process (a snapshot), from which the target's run continues.

    ``watched.pid`` is the process that currently executes the callers; 0 after it has ended.
    """

    number: int
    of: tuple[int, bool]
    """Number of the enclosing run in the user's file, and whether it uses real tensors."""
    watched: WatchedProcess
    process: EnclosingProcess
    taken: dict[tuple[int, int], SnapshotTaken] = field(default_factory=dict)
    """Snapshots (forked copies of the process at a call), by target number and number of the
    target's call."""
    pid: int = 0
    """Pid of the first process of the enclosing run. When it ends, the system ends all snapshots
    too."""
    left: int = 0
    """Number of processes that stopped at a call and remain as snapshots."""
    settled: int = 0
    """Number of snapshots that have reported for which target they stopped."""
    ended: bool = False
    over: bool = False
    """True if the run has stopped taking snapshots, because it has ended or was interrupted."""
    further: set[int] = field(default_factory=set)
    """Numbers of the targets for which the engine traces every call, not only the first."""


class _ModuleOwner:
    """A receiver that forwards the pid, the end and a failed start of the module process to the
    analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.module: WatchedProcess | None = None

    def set_pid(self, pid: int) -> None:
        self._analysis.set_pid(self.module, pid)

    def handle_end(self, code: int | None) -> None:
        self._analysis.handle_end(self.module, code)

    def handle_refusal(self, error: int) -> None:
        self._analysis.handle_refusal(self.module, error)


class _RunOwner:
    """A receiver that forwards the pid, the end and a failed start of one run's process to the
    analysis."""

    def __init__(self, analysis: Analysis, number: int) -> None:
        self._analysis, self._number = analysis, number

    def set_pid(self, pid: int) -> None:
        self._analysis.set_run_pid(self._number, pid)

    def handle_end(self, code: int | None) -> None:
        self._analysis.handle_run_end(self._number, code)

    def handle_refusal(self, error: int) -> None:
        self._analysis.handle_run_refusal(self._number, error)


class _EnclosingOwner:
    """A receiver that forwards the pid and the end of an enclosing run's first process to the
    analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.run: EnclosingRun | None = None

    def set_pid(self, pid: int) -> None:
        if self.run is not None:
            self._analysis.set_enclosing_pid(self.run, pid)

    def handle_end(self, code: int | None) -> None:
        if self.run is not None:
            self._analysis.handle_enclosing_end(self.run)

    def handle_refusal(self, error: int) -> None:
        """Treat the enclosing run as ended, so that its targets are traced without it."""
        self.handle_end(None)


class Analysis:
    """The state of one ``Analyze`` request. It starts, watches and ends the processes of the
    request and sends their events to the server.

    The processes are the module process, which executes the user's file, and the runs forked from
    it. Every run ends before ``until``, a time of ``time.monotonic``.
    """

    def __init__(
        self,
        request: Analyze,
        host: Services,
        scratch: str,
        waited: float = 0.0,
        until: float = float("inf"),
    ) -> None:
        self.request, self.scratch = request, scratch
        self._no_run_after = until
        self._host = host
        self._started, self._waited = time.monotonic(), waited
        self._lines: list[str] = []
        self._process: ModuleProcess | None = None
        self._module: WatchedProcess | None = None
        self._planned = False
        self._read = False
        """True if the module process has reported the targets, which also shows that the file could
        be parsed."""
        self._afresh = False
        """True if the module process was restarted once because the saved process that it was
        forked from had executed other imports than the file has now."""
        self._unparsable: str | None = None
        self._finished = False
        self._pending: list[Attempt] = []
        self._settled: dict[int, str] = {}
        """Names of the targets whose first run has ended, by target number."""
        self._waiting: dict[int, list[PlannedRun]] = {}
        """Planned runs, by target number, which start only after an earlier run of the same target
        requests them."""
        self._running: dict[int, LaunchedRun] = {}
        self._enclosing: dict[tuple[int, bool], EnclosingRun | None] = {}
        """Enclosing runs by (number, whether tensors are real); None if the process could not be
        started."""
        self._number = 0
        self._calls: list[OperatorCalls] = []
        """Results of PyTorch operators on fake tensors that the runs computed. The saved process
        repeats them, so that later analyses reuse them."""
        self._phases: tuple[PhaseTime, ...] = ()
        """Durations of the phases of all module processes of the request, in chronological
        order."""
        self._skips: list[SkippedStatement] = []
        self._told: set[bytes] = set()
        """Encoded messages that were already sent to the server. A repeated module execution or run
        reports the same findings again."""
        self._begun: set[int] = set()
        self._given_up: dict[tuple[int, int], LaunchedRun] = {}
        """Runs whose result was not reported because they are repeated in another mode, by target
        number and input number."""
        self._until: dict[Part, float] = {}
        """Time by which all runs of a kind (forecast or further paths) must have ended. Set when
        the first run of that kind is launched."""
        self._expected: list[Attempt] = []
        """Speculative runs that start once processors are idle."""
        self._speculations: dict[tuple[int, int], Speculation] = {}
        """Launched speculative runs, by target number and input number."""
        self._firsts: dict[tuple[int, int], LaunchedRun] = {}
        """Successful first runs by target number and input number, whose reports are sent again
        with the results of further execution paths."""
        self._targets: TargetsFound | None = None
        self._reported: set[tuple[str, Range]] = set()
        self._given = {one.target: one for one in request.given}
        """Unchanged targets by name; they are traced only if their callers pass other arguments
        than before."""
        self._again = False
        """True if the module has been executed a second time because its first process was killed
        from outside the engine."""
        self._retry_at = float("inf")
        """Time at which a process start that failed for lack of resources is repeated; infinite if
        none is waiting."""
        self._short_since = 0.0
        """Time at which a process start first failed for lack of memory, processes or descriptors;
        0 if the last start succeeded."""
        self._supervisor = Supervisor(host, request.request, request.limits, self)

    # -- the module process -------------------------------------------------------------------

    def begin(self) -> None:
        """Start a module process; if resources are short, wait and try again later."""
        try:
            self._execute()
        except OSError as error:
            self._wait_or_fail(error)

    def _execute(self) -> None:
        """Start a module process that skips the statements that ended earlier module processes."""
        self._planned, self._read = False, False
        began = time.monotonic()
        job = ModuleOrder(self.request, self.scratch, tuple(self._skips), began=began)
        owner = _ModuleOwner(self)
        # Do not keep the process for later edits if it skips statements or may start programs.
        alone = bool(self._skips) or wire.starts_programs(self.request)
        process = self._host.backend.execute_module(job, owner, keep=not alone)
        self._process = process
        made = LaunchedProcess(process.channels, process.pid, process.begun)
        seconds = self.request.limits.module_seconds
        module = self._supervisor.add(made, "module", seconds)
        module.late_answer_seconds = _MODULE_ANSWER_SECONDS
        self._module = owner.module = module
        self._host.watch(made.channels.reports, self._read_module)
        self._short_since = 0.0

    def _forget_module(self) -> None:
        module, self._module = self._module, None
        if module is not None:
            self._supervisor.release(module)
        self._close()

    def _wait_or_fail(self, error: OSError) -> None:
        if not self._may_wait(error):
            reason = f"The engine could not start a process: {shortage.shortage_words(error)}."
            next_step = "Close other programs or files, then try again."
            self._finish(last=Failed(self.request.request, reason, next_step))

    def _may_wait(self, error: OSError) -> bool:
        """Schedule another attempt if ``error`` is a shortage of resources. Return False for other
        errors, or if the shortage has lasted too long."""
        if not shortage.is_short(error):
            return False
        now = time.monotonic()
        if not self._short_since:
            self._short_since = now
            text = f"{shortage.shortage_words(error)}: {self.request.path} waits.\n"
            self._host.send(Log(self.request.request, "engine", text))
        made_room = self._host.backend.make_room()
        self._retry_at = now if made_room else now + shortage.WAIT
        if made_room or self._running or now - self._short_since < shortage.PATIENCE:
            return True
        self._retry_at = float("inf")
        return False

    def _retry(self) -> None:
        self._retry_at = float("inf")
        if self._module is not None or self._planned:
            self._launch_pending()
        else:
            self.begin()

    def set_pid(self, module: WatchedProcess | None, pid: int) -> None:
        if module is not None and module is self._module:
            module.pid = pid
        elif pid:  # it was abandoned before its pid was known
            processes.kill_trees([pid])

    def handle_end(self, module: WatchedProcess | None, code: int | None) -> None:
        if module is not None and module is self._module:
            self._module_ended(code)

    def handle_refusal(self, module: WatchedProcess | None, error: int) -> None:
        """Wait and start the module process again, or fail the request, after the fork failed with
        errno ``error``."""
        if module is not None and module is self._module:
            self._forget_module()
            self._wait_or_fail(OSError(error, os.strerror(error)))

    def _read_module(self) -> None:
        module = self._module
        if module is None:
            return
        for line in module.reports.read():
            self._from_module(line)
            if module is not self._module:
                return
        if module.reports.ended:
            # The process is ending, or user code closed the pipe that carries its messages.
            if module.cause is None:
                module.deadline, module.late = time.monotonic() + ANSWER_SECONDS, "lost"
            self._host.unwatch(module.reports.descriptor)

    def _from_module(self, line: bytes) -> None:
        message, module = self._parse_own(line), self._module
        if module is not None and self._supervisor.reports_too_much(module, line):
            return
        if isinstance(message, StageBegun):
            if module is not None:
                self._supervisor.begin_stage(module, message, self._most_seconds(message.stage))
        elif isinstance(message, RunsPlanned):
            if self._planned:
                return
            self._planned = True
            if module is not None:
                # The process was interrupted at its deadline but finished soon enough.
                module.cause, module.kill_at, module.is_timed = None, float("inf"), False
            if self._process is not None:
                self._process.handle_message(message)
            focus = self.request.focus
            runs = sorted(message.runs, key=lambda planned: line_distance(planned.body, focus))
            self._pending, self._waiting = [], {}
            observe = self.request.observe
            last = observe.last_probe if observe is not None else -1
            for planned in runs:
                if planned.waits and planned.probe > last:
                    self._waiting.setdefault(planned.target, []).append(planned)
            needed = [one for one in runs if not one.waits or one.probe <= last]
            self._plan_runs(needed)
            self._expect_paths(needed)
            if "candidates" in self.request.parts:
                # Any run of the target may show the finding for which a program was requested.
                self._plan_runs([planned for planned in runs if planned.waits])
            self._launch_pending()
        elif isinstance(message, (LateImports, ChildForked, ForkFailed, ChildExited)):
            if self._process is not None:
                self._process.handle_message(message)
        elif isinstance(message, PreambleStale):
            if not self._afresh:
                self._afresh = True
                self._start_afresh()
        elif isinstance(message, TextUnparsable):
            if not self._read:  # a process reports Planned before it executes anything
                self._unparsable = message.reason
                self._finish()
        elif isinstance(
            message, (FindingFound, TargetDone, TargetsFound, OperatorsRegistered, FilesRead, Log)
        ):
            self._send_once(line, message)
        elif isinstance(message, Importing):
            self._host.forward(line + b"\n")
        elif isinstance(message, PhasesTaken):
            self._phases += message.phases

    def _parse_own(self, line: bytes) -> Upward | Event | None:
        """Decode ``line``; return None if it belongs to another request, since user code can write
        to the same pipe."""
        message = wire.parse_message(line)
        number = self.request.request
        return message if getattr(message, "request", number) == number else None

    def _plan_runs(self, runs: list[PlannedRun]) -> None:
        parts = self.request.parts
        self._pending += [
            Attempt(planned, self._first_mode(planned, part), part)
            for part in parts
            if part != "paths"  # these follow the first run
            for planned in runs
        ]
        self._pending.sort(key=lambda attempt: parts.index(attempt.part))

    def _first_mode(self, planned: PlannedRun, part: Part) -> Mode:
        """Return whether the first attempt of a planned run uses fake or real tensors."""
        mode = self.request.mode
        if part == "second":
            # The first call with fake tensors chose example values for unknown sizes; a second call
            # with real values would not add constraints.
            return "real" if mode == "real" else "fake"
        return "real" if mode == "auto" and planned.info.name in self.request.real else mode

    def _most_seconds(self, stage: Stage) -> float:
        """Return the time limit of a process stage: of module execution for ``"module"``, otherwise
        of a run."""
        most = self.request.limits
        return most.module_seconds if stage == "module" else most.seconds

    def _start_afresh(self) -> None:
        """Restart the module process without the saved process it was forked from, because that one
        had executed other imports than the file has."""
        if self._process is not None:
            self._process.discard_source()
        self._host.found.forget_unfound(self.request.path)
        self._forget_module()
        self.begin()

    def _send_once(self, line: bytes, message: Event) -> None:
        if isinstance(message, TargetsFound):
            self._targets, self._read = message, True
        if line not in self._told:
            self._told.add(line)
            if isinstance(message, TargetDone):
                self._send_report(message.report)
            else:
                self._host.forward(line + b"\n")

    def _module_ended(self, code: int | None) -> None:
        module = self._module
        if module is None or self._finished:
            return
        for line in module.reports.drain():
            self._from_module(line)
            if module is not self._module:
                return
        words = blackbox.read_last_words(module.box, self.request.path)
        self._forget_module()
        if was_ended_outside(code, module) and not self._again:
            self._again = True
            self._begin_again()
            return
        planned, self._planned = self._planned, False
        cause = explain_end(code, module, self.request.limits)
        if planned:
            self._lose_runs(code, cause)
            self._finish()
            return
        self._report_statement_end(words, cause, module.cause)
        if words.statement is not None and self._try_without(words.statement, cause):
            return
        status: Status = "timeout" if module.cause == "timeout" else "crashed"
        self._report_silent(f"The module could not be executed: {cause}", status)
        self._finish()

    def _report_silent(
        self,
        error: str = "The process that executed the module has reported nothing of it",
        status: Status = "crashed",
    ) -> None:
        """Report ``status`` and ``error`` for every target without a report, since the editor would
        show it as free of graph breaks."""
        for target in self._targets.targets if self._targets is not None else ():
            known = target.name in self.request.without
            if not known and (target.name, target.range) not in self._reported:
                place = target.name, target.kind, target.range
                self._send_report(TargetReport(*place, status, mode="real", error=error))

    def _begin_again(self) -> None:
        """Discard the state of all runs and execute the module once more. Findings that the second
        execution repeats are not sent again."""
        for number in list(self._running):
            self._supervisor.release(self._running.pop(number).watched)
        for one in self._enclosing_runs():
            self._supervisor.release(one.watched)
            one.process.close()
        for states in (self._pending, self._settled, self._waiting, self._enclosing):
            states.clear()
        for kept in (self._given_up, self._firsts, self._expected, self._speculations):
            kept.clear()
        self._planned = False
        self._retry()

    def _try_without(self, statement: int, cause: str) -> bool:
        known = any(skip.statement == statement for skip in self._skips)
        if known or len(self._skips) + 1 >= _MOST_ATTEMPTS:
            return False
        self._skips.append(SkippedStatement(statement, cause))
        self.begin()
        return True

    def _lose_runs(self, code: int | None, cause: str) -> None:
        """Report each run as crashed, whether it was running or not yet started, after the module
        process ended with ``code`` for the reason ``cause``."""
        for number in list(self._running):
            launched = self._running.pop(number)
            self._conclude_run(launched, code, f"{_MODULE_ENDED}: {cause}")
        for attempt in self._pending:
            self._handle_unstarted(attempt, f"{_MODULE_ENDED.capitalize()}: {cause}")
            if attempt.part == "first":
                self._report_unstarted(attempt, f"{_MODULE_ENDED}: {cause}")
        self._pending.clear()

    def _report_unstarted(self, attempt: Attempt, cause: str) -> None:
        """Send a finding that the target's run could not begin, with the reason ``cause``."""
        target = attempt.plan.info
        self._send_finding(
            Finding(
                code="trace/crashed",
                message=f"The run of `{target.name}` could not begin: {cause}",
                range=target.range,
                target=target.name,
                mode=_trace_mode(attempt.mode),
                identity=f"trace/crashed@{place_words(target.range)}",
                run=RunId(target.name, attempt.plan.probe),
            )
        )

    def _handle_unstarted(self, attempt: Attempt, error: str) -> None:
        """Report a run that never began: a note for a forecast, a crashed status for a run that
        must report one."""
        planned = attempt.plan
        if attempt.part == "forecast":
            self._no_forecast(planned, f"{error}.")
        if attempt.part not in ("first", "candidates", *_OBSERVING):
            return
        self._send_report(
            TargetReport(
                planned.info.name,
                planned.info.kind,
                planned.info.range,
                "crashed",
                mode=_trace_mode(attempt.mode),
                probe=planned.probe_info,
                error=error,
                probe_number=planned.probe,
            )
        )

    def _report_statement_end(self, words: LastWords, cause: str, why: Cause | None) -> None:
        """Send a finding at the statement during which the module process ended. ``words`` holds
        its last stack; ``why`` is the engine's reason for ending it, if any."""
        here = frames.innermost_frame(words.stack, self.request.path)
        where = self._frame_range(here) or frames.line_range(words.line or 0, self._text_lines())
        code = "trace/timeout" if why == "timeout" else "trace/crashed"
        self._send_finding(
            Finding(
                code=code,
                message=f"Executing the module stopped here: {cause}",
                range=where,
                stack=words.stack,
                notes=_restart_notes(words.statement),
                mode="real",
                identity=f"{code}@{place_words(where)}",
            )
        )

    # -- runs ---------------------------------------------------------------------------------

    def _launch_pending(self) -> None:
        while self._pending and len(self._running) < max(1, self.request.jobs):
            number = self._next_attempt()
            if number is None:
                return
            if not self._launch_one(self._pending[number]):
                return
            del self._pending[number]
            self._short_since = 0.0
        self._speculate()
        more = any(self._may_ask_for_more(one) for one in self._enclosing_runs())
        if self._planned and not self._pending and not self._running and not more:
            self._finish()

    def _next_attempt(self) -> int | None:
        """Return the index of the next run to launch in the list of pending runs; None if all must
        wait for a running one.

        A search for inputs runs once per target: the target's other runs wait for its result.
        """
        firsts = "first" in self.request.parts
        for number, attempt in enumerate(self._pending):
            before = set(attempt.plan.after)
            tried = attempt.plan.probe_info.origin in ("synthesis", "harvest")
            if firsts and tried and attempt.part != "first":
                before.add(attempt.plan.target)
            if before <= self._settled.keys() and not self._waits_for_snapshot(attempt):
                return number
        goes_on = self._running or any(not one.over for one in self._enclosing_runs())
        return None if goes_on else 0

    def _launch_one(self, attempt: Attempt) -> bool:
        """Launch a run, or report it as not tried if its time is used up. Return False if it must
        be tried again later."""
        planned, most = attempt.plan, self.request.limits
        seconds, last = min(most.seconds, max(self._no_run_after - time.monotonic(), 0.0)), False
        found = self._found_probes()
        if attempt.speculative:
            found = tuple(replace(one, settled=True) for one in found)
        elif attempt.part in ("forecast", "paths"):
            left = self._seconds_left(attempt.part)
            last = left <= 0 and bool(attempt.answers)
            seconds = seconds if last else min(seconds, left)
            if seconds <= 0:
                if attempt.part == "forecast":
                    taken = self.request.forecast_seconds
                    self._no_forecast(planned, f"Not tried: others had taken {taken:g} seconds.")
                else:
                    taken = self.request.path_seconds
                    self._report_missing_paths(
                        planned, "late", f"others had taken {taken:g} seconds"
                    )
                return True
        self._number += 1
        number = self._number
        command = LaunchRun(
            number,
            planned.target,
            planned.probe,
            attempt.mode,
            attempt.part,
            seconds,
            most.memory,
            attempt.answers,
            last,
            found=found,
            known=attempt.known,
            began=time.monotonic(),
            speculative=attempt.speculative,
        )
        enclosing = self._enclosing_of(attempt)
        if enclosing is not None and planned.at not in enclosing.taken:
            enclosing = None
        process = self._process if enclosing is None else enclosing.process
        owner = _RunOwner(self, number)
        try:
            made = process and process.launch(command, planned.probe_info, owner)
        except OSError as error:
            if self._may_wait(error):
                return False
            self._handle_unstarted(
                attempt, f"No process could be started for it: {shortage.shortage_words(error)}"
            )
            return True
        if not made and enclosing is not None:
            # The enclosing run and its snapshots are ending.
            enclosing.taken.clear()
            self._enclosing_over(enclosing)
            return self._launch_one(attempt)
        if not made:
            return False
        if made.taken_over and self._module is not None:
            watched, self._module = self._module, None
            self._host.unwatch(made.channels.reports)
            watched.enter_stage("run", seconds)
            watched.late_answer_seconds = ANSWER_SECONDS
        else:
            watched = self._supervisor.add(made, "run", seconds)
        self._running[number] = LaunchedRun(attempt, watched, enclosing)
        self._host.watch(made.channels.reports, lambda: self._read_run(number))
        if planned.target not in self._begun:
            self._begun.add(planned.target)
            self._host.send(TargetStarted(self.request.request, planned.info.name))
        return True

    def _seconds_left(self, part: Part) -> float:
        """Return the seconds that remain for all forecasts together, or for all further execution
        paths together."""
        request = self.request
        most = request.forecast_seconds if part == "forecast" else request.path_seconds
        now = time.monotonic()
        return self._until.setdefault(part, now + most) - now if most else float("inf")

    def _read_run(self, number: int) -> None:
        launched = self._running.get(number)
        if launched is None:
            return
        for line in launched.watched.reports.read():
            self._from_run(launched, line)
        if launched.done is not None or launched.answer is not None:
            # All results have arrived. Do not wait until the process has freed its memory.
            self.handle_run_end(number, 0)
        elif launched.watched.reports.ended:
            # The exit status of this run arrives later from the module process.
            self._host.unwatch(launched.watched.reports.descriptor)

    def _from_run(self, launched: LaunchedRun, line: bytes) -> None:
        message = self._parse_own(line)
        if self._supervisor.reports_too_much(launched.watched, line):
            return
        if isinstance(message, StageBegun):
            most = self._most_seconds(message.stage)
            self._supervisor.begin_stage(launched.watched, message, most)
        elif isinstance(message, OperatorCalls):
            self._calls.append(message)
        elif isinstance(message, RunDone):
            launched.done = message
        elif isinstance(message, BranchBegun):
            launched.branching = message
        elif isinstance(message, BranchAnswer):
            launched.answer = message
        elif isinstance(message, _SEEN):
            launched.seen.append(line)
        elif isinstance(message, _TOLD):
            launched.foretold |= isinstance(message, ForecastFound)
            if launched.attempt.part == "paths":
                if line in self._told:
                    return  # an earlier attempt has reported it
                self._told.add(line)
            if isinstance(message, FindingFound):
                launched.findings[message.finding.identity] = message.finding
            self._host.forward(line + b"\n")

    def set_run_pid(self, number: int, pid: int) -> None:
        launched = self._running.get(number)
        if launched is not None:
            launched.watched.pid = pid
            if self.request.nice:
                processes.give_way(pid)
            if launched.attempt.speculative and launched.attempt.plan.at not in self._speculations:
                processes.kill_trees([pid])

    def handle_run_refusal(self, number: int, error: int) -> None:
        """Launch the run again later, or report it as failed, after its fork failed with errno
        ``error``."""
        launched = self._running.pop(number, None)
        if launched is None:
            return
        self._supervisor.release(launched.watched)
        why = os.strerror(error)
        if launched.attempt.speculative:
            self._end_speculation(launched)
            self._launch_pending()
        elif self._may_wait(OSError(error, why)):
            self._pending.insert(0, launched.attempt)
        else:
            self._handle_unstarted(launched.attempt, f"No process could be started for it: {why}")
            self._launch_pending()

    def handle_run_end(self, number: int, code: int | None) -> None:
        launched = self._running.pop(number, None)
        if launched is None:
            return
        self._conclude_run(launched, code)
        self._launch_pending()

    def _conclude_run(self, launched: LaunchedRun, code: int | None, cause: str = "") -> None:
        """Report the result of a run whose process exited with ``code``, or plan to repeat it.
        ``cause`` is the module process's end that ended the run, or empty."""
        watched = launched.watched
        for line in watched.reports.drain():
            self._from_run(launched, line)
        words = blackbox.read_last_words(watched.box, self.request.path)
        self._supervisor.release(watched)
        attempt, done = launched.attempt, launched.done
        plan, part = attempt.plan, attempt.part
        if attempt.speculative:
            self._end_speculation(launched)
            return
        if launched.branching is not None:
            answer = launched.answer or _missing_answer(
                launched.branching, code, watched, self.request
            )
            self._pending.insert(0, replace(attempt, answers=(*attempt.answers, answer)))
            return
        if done is None and was_ended_outside(code, watched) and not attempt.again:
            self._pending.insert(0, replace(attempt, again=True))
            return
        if done is None:
            why = explain_end(code, watched, self.request.limits)
            why = why if watched.cause is not None else cause or why
        else:
            why = done.report.error or "it reported nothing"
        onward = None if done is None else self._mode_after(attempt, done)
        if done is not None and onward is not None:
            if part == "first":
                self._given_up[attempt.plan.at] = launched
                if onward == "real":
                    self._remember_search(done)
            self._pending.insert(0, Attempt(plan, onward, part, known=attempt.known))
            return
        if part in ("first", "candidates"):
            self._settled[plan.target] = plan.info.name
        if part == "forecast" and not launched.foretold:
            self._no_forecast(plan, f"It was stopped: {why}.")
        if part == "paths" and (done is None or done.report.status != "traced"):
            self._report_missing_paths(
                plan, "late" if watched.cause == "timeout" else "failed", why
            )
        elif part == "paths" and done is not None:
            self._report_paths(plan, done)
        if part in _OBSERVING:
            self._settled[plan.target] = plan.info.name
            if done is None:
                self._handle_unstarted(attempt, why)
            else:
                self._send_report(replace(done.report, probe_number=plan.probe))
            return
        if part not in ("first", "candidates"):
            return  # it has reported its findings; its exit status does not matter
        before = self._given_up.get(attempt.plan.at)
        for seen in launched.seen or (before.seen if before is not None else ()):
            self._host.forward(seen + b"\n")
        if done is None:
            self._report_crash(launched, why, words)
        else:
            if before is not None and done.report.status in ("traced", "no-probe"):
                self._retract_findings(before, launched)
            self._send_report(_numbered_report(launched, done))
            self._remember_search(done)
            if part == "first" and done.further:
                self._plan_runs(self._waiting.pop(plan.target, [])[: done.further])
            taken_of = launched.snapshot_of
            called = done.needs_real is None and done.report.status != "no-probe"
            if part == "first" and taken_of is not None and called:
                taken_of.further.add(plan.target)
                self._plan_further(taken_of)
            if done.known and "paths" in self.request.parts:
                self._firsts[attempt.plan.at] = launched
                # If fake tensors raised an exception, trace the further paths with real ones.
                # Otherwise keep the requested mode, in which missing values are chosen.
                raised = before is not None and before.done is not None and before.done.raised
                mode: Mode = "fake" if attempt.mode == "fake" else self.request.mode
                mode = "real" if raised else mode
                self._plan_paths(Attempt(plan, mode, "paths", known=done.known))
                return
        if part == "first":
            self._expect_none(attempt)

    # -- speculation --------------------------------------------------------------------------

    def _expect_paths(self, runs: list[PlannedRun]) -> None:
        """Queue speculative runs for the targets that had further execution paths in the previous
        version of the file."""
        if not {"first", "paths"} <= set(self.request.parts):
            return
        for planned in runs:
            name, probe = planned.info.name, planned.probe
            expected = self._host.expected_paths.entries_of(self.request.path).get((name, probe))
            if expected is not None:
                mode, known = expected.mode, expected.known
                self._expected.append(
                    Attempt(planned, mode, "paths", known=known, speculative=True)
                )

    def _speculate(self) -> None:
        """Launch speculative runs while fewer runs are active than the request allows."""
        while self._expected and not self._pending and len(self._running) < self.request.jobs:
            attempt = self._expected.pop(0)
            first = any(
                one.attempt.plan.at == attempt.plan.at and one.attempt.part == "first"
                for one in self._running.values()
            )
            if first:
                found = self._found_for(attempt)
                self._speculations[attempt.plan.at] = Speculation(attempt, found)
                self._launch_one(attempt)
                if not any(one.attempt is attempt for one in self._running.values()):
                    del self._speculations[attempt.plan.at]

    def _found_for(self, attempt: Attempt) -> FoundProbe | None:
        return self._host.found.entries_of(self.request.path).get(attempt.plan.info.name)

    def _end_speculation(self, launched: LaunchedRun) -> None:
        """Keep the answer of a speculative run, and launch the run that waits for it, if there is
        one."""
        speculation = self._speculations.get(launched.attempt.plan.at)
        if speculation is None:
            return
        speculation.over, speculation.answer = True, launched.answer
        if speculation.wanted is not None:
            self._pending.insert(0, _with_answer(speculation.wanted, speculation))

    def _plan_paths(self, attempt: Attempt) -> None:
        """Plan the run that traces a target's further execution paths. Use the answer of the
        speculative run if it had the same mode and inputs."""
        name, probe = attempt.plan.info.name, attempt.plan.probe
        expected = Expected(attempt.mode, attempt.known)
        self._host.expected_paths.add(self.request.path, (name, probe), expected)
        speculation = self._speculations.get(attempt.plan.at)
        if speculation is not None and (
            speculation.attempt.mode != attempt.mode
            or speculation.found != self._found_for(attempt)
        ):
            self._stop_speculation(attempt)
            speculation = None
        if speculation is None:
            self._pending.append(attempt)
        elif speculation.over:
            self._pending.append(_with_answer(attempt, speculation))
        else:
            speculation.wanted = attempt

    def _expect_none(self, attempt: Attempt) -> None:
        """Forget that a target had further execution paths, and stop its speculative run."""
        name, probe = attempt.plan.info.name, attempt.plan.probe
        self._host.expected_paths.forget(self.request.path, (name, probe))
        self._stop_speculation(attempt)

    def _stop_speculation(self, attempt: Attempt) -> None:
        speculation = self._speculations.pop(attempt.plan.at, None)
        if speculation is not None and not speculation.over:
            running = (one for one in self._running.values() if one.attempt.speculative)
            pids = [one.watched.pid for one in running if one.attempt.plan.at == attempt.plan.at]
            processes.kill_trees([pid for pid in pids if pid])

    # -- enclosing runs -----------------------------------------------------------------------

    def _enclosing_runs(self) -> list[EnclosingRun]:
        return [one for one in self._enclosing.values() if one is not None]

    def _found_probes(self) -> tuple[FoundProbe, ...]:
        """Return the inputs that searches found for targets, either in this version of the file or
        before the last edit."""
        found = self._host.found.entries_of(self.request.path).values()
        if "first" not in self.request.parts:
            return tuple(replace(one, settled=True) for one in found)
        names = self._settled.values()
        return tuple(replace(one, settled=one.target in names) for one in found)

    def _waits_for_snapshot(self, attempt: Attempt) -> bool:
        given = self._given.get(attempt.plan.info.name)
        if given is not None:
            # Wait until all calls of the target are recorded: if their arguments are unchanged, it
            # is not traced.
            one = self._enclosing_run(attempt.plan, real=given.real)
            if one is not None and not one.over:
                return True
        enclosing = self._enclosing_of(attempt)
        return (
            enclosing is not None and not enclosing.over and attempt.plan.at not in enclosing.taken
        )

    def _enclosing_of(self, attempt: Attempt) -> EnclosingRun | None:
        """Return the enclosing run that calls an attempt's target, started on first use; None if
        there is none.

        Enclosing runs do not count toward the limit of concurrent runs, so they do not delay other
        runs.
        """
        return self._enclosing_run(attempt.plan, real=attempt.mode == "real")

    def _enclosing_run(self, plan: PlannedRun, *, real: bool) -> EnclosingRun | None:
        shared = plan.shared
        if shared is None or self._process is None:
            return None
        if (shared, real) in self._enclosing:
            return self._enclosing[shared, real]
        self._number += 1
        most = self.request.limits
        command = LaunchEnclosingRun(
            self._number,
            shared,
            "real" if real else "fake",
            most.seconds,
            most.memory,
            self._found_probes(),
        )
        owner = _EnclosingOwner(self)
        try:
            process = self._process.launch_enclosing(command, owner)
        except OSError:
            process = None
        if process is not None:
            watched = self._supervisor.add(LaunchedProcess(process.channels), "run", most.seconds)
            one = owner.run = EnclosingRun(self._number, (shared, real), watched, process)
            self._host.watch(process.channels.reports, lambda: self._read_enclosing(one))
        self._enclosing[shared, real] = owner.run
        return owner.run

    def _read_enclosing(self, one: EnclosingRun) -> None:
        for line in one.watched.reports.read():
            self._from_enclosing(one, line)
            if self._finished:
                return
        if one.watched.reports.ended:
            self._host.unwatch(one.watched.reports.descriptor)

    def _from_enclosing(self, one: EnclosingRun, line: bytes) -> None:
        message = wire.parse_message(line)
        if isinstance(message, SnapshotTaken):
            one.settled += 1
            if message.target >= 0 and not one.over:
                one.taken[message.target, message.probe] = message
        elif isinstance(message, ForkFailed) or (
            isinstance(message, (ChildForked, ChildExited)) and message.number != one.number
        ):
            one.process.handle_message(message)
            return
        elif isinstance(message, ChildForked):
            one.left += 1
            one.pid = one.pid or one.watched.pid
            self._set_current_process(one, message.pid)
            return
        elif isinstance(message, ChildExited):
            one.ended = True
            one.watched.pid, one.watched.kill_at = 0, float("inf")
        if one.ended and one.settled == one.left:
            self._enclosing_over(one)
        self._plan_further(one)
        self._launch_pending()

    def set_enclosing_pid(self, one: EnclosingRun, pid: int) -> None:
        """Record the pid of the enclosing run's first process. That process may already have become
        a snapshot, with another one executing the callers."""
        one.pid = pid
        if not one.left:
            self._set_current_process(one, pid)

    def _set_current_process(self, one: EnclosingRun, pid: int) -> None:
        one.watched.pid = pid
        if self.request.nice:
            processes.give_way(pid)

    def _enclosing_over(self, one: EnclosingRun) -> None:
        one.over, one.watched.deadline = True, float("inf")
        for planned in {pending.plan.target: pending.plan for pending in self._pending}.values():
            given = self._given.get(planned.info.name)
            if given is not None and one.of == (planned.shared, given.real):
                del self._given[given.target]
                self._compare_calls(one, planned, given)

    def _compare_calls(self, one: EnclosingRun, planned: PlannedRun, given: GivenCalls) -> None:
        """Do not trace a target whose recorded calls have the same arguments as in ``given``; send
        ``CalledAgain`` instead."""
        target, name = planned.target, planned.info.name
        taken = {probe: made for (of, probe), made in sorted(one.taken.items()) if of == target}
        if {probe: made.call for probe, made in taken.items()} != dict(enumerate(given.calls)):
            return
        self._pending = [pending for pending in self._pending if pending.plan.target != target]
        self._waiting.pop(target, None)
        self._settled[target] = name
        self._reported.add((name, planned.info.range))
        # If the file does not call the target, use the source text of the target's planned inputs.
        usual = planned.probe_info.source
        sources = tuple(made.source or usual for made in taken.values())
        self._host.send(CalledAgain(self.request.request, name, sources))

    def handle_enclosing_end(self, one: EnclosingRun) -> None:
        """Record that the enclosing run's first process has ended, which also ended its snapshots
        and the runs forked from them."""
        if self._finished:
            return
        one.watched.pid, one.watched.kill_at, one.pid = 0, float("inf"), 0
        one.taken.clear()
        self._enclosing_over(one)
        for number, launched in list(self._running.items()):
            if launched.snapshot_of is one:
                self.handle_run_end(number, None)
        self._launch_pending()

    def _plan_further(self, one: EnclosingRun) -> None:
        """Plan runs for the recorded calls, if the engine traces every call of the target."""
        for target in one.further:
            waiting = self._waiting.get(target, [])
            ready = [planned for planned in waiting if planned.at in one.taken]
            if ready:
                self._waiting[target] = [planned for planned in waiting if planned not in ready]
                self._plan_runs(ready)

    def _may_ask_for_more(self, one: EnclosingRun) -> bool:
        return not one.over and any(self._waiting.get(target) for target in one.further)

    def _remember_search(self, done: RunDone) -> None:
        """Store the inputs that a search for the target found, or that it found none, for later
        runs and for the next edit."""
        report = done.report
        probe = report.probe
        if report.status == "no-probe":
            self._pending = [one for one in self._pending if one.plan.info.name != report.name]
            if self.request.tentative:
                return
            self._host.found.forget(self.request.path, report.name)
            if done.unfound is not None:
                self._host.found.add(self.request.path, done.unfound.target, done.unfound)
        elif probe is not None and probe.origin == "synthesis" and probe.comment:
            found = FoundProbe(report.name, probe.comment)
            self._host.found.add(self.request.path, report.name, found)
        elif report.status == "traced":
            self._host.found.forget(self.request.path, report.name)  # the text calls it

    def _report_paths(self, plan: PlannedRun, done: RunDone) -> None:
        """Send the target's first report again, with the coverage and further execution paths that
        ``done`` found."""
        first = self._firsts.get(plan.at)
        if first is None or first.done is None or done.paths is None:
            return
        for identity in done.paths.narrowed:
            finding = first.findings.get(identity)
            if finding is not None:
                path = TracePath(training=done.paths.mode)
                self._send_finding(replace(finding, path=path))
        self._send_report(
            replace(
                _numbered_report(first, first.done),
                coverage=done.report.coverage,
                paths=done.report.paths,
            )
        )

    def _report_missing_paths(self, plan: PlannedRun, status: PathStatus, reason: str) -> None:
        """Send the target's first report again with the reason why its further execution paths were
        not traced, or only in part."""
        first = self._firsts.get(plan.at)
        if first is not None and first.done is not None:
            paths = (PathReport("along other paths", status, reason),)
            self._send_report(replace(_numbered_report(first, first.done), paths=paths))

    def _mode_after(self, attempt: Attempt, done: RunDone) -> Mode | None:
        """Return the mode in which a run is repeated, or None if its result is final.

        Real tensors have values that fake tensors lack; fake tensors work without the GPU that real
        ones need.
        """
        if done.needs_real and attempt.mode == "auto":
            return "real"
        asked_for = attempt.mode == self.request.mode
        missed = devices.is_missing_gpu_error(done.report.error or "")
        return "fake" if attempt.mode == "real" and missed and not asked_for else None

    def _retract_findings(self, before: LaunchedRun, launched: LaunchedRun) -> None:
        """Retract the findings of the earlier run with fake tensors that the run with real tensors
        did not report again."""
        for identity, finding in before.findings.items():
            if identity and identity not in launched.findings:
                self._send_finding(replace(finding, count=0))

    def _no_forecast(self, planned: PlannedRun, note: str) -> None:
        run_ = RunId(planned.info.name, planned.probe, "forecast")
        number, target = self.request.request, planned.info.name
        self._host.send(ForecastFound(number, target, run_, note=note))

    def _report_crash(self, launched: LaunchedRun, cause: str, words: LastWords) -> None:
        planned, watched = launched.attempt.plan, launched.watched
        here = frames.innermost_frame(words.stack, self.request.path)
        where = self._frame_range(here) or words.place or planned.info.range
        timeout = watched.cause == "timeout"
        code = "trace/timeout" if timeout else "trace/crashed"
        self._send_finding(
            Finding(
                code=code,
                message=f"The run of `{planned.info.name}` stopped here: {cause}",
                range=where,
                target=planned.info.name,
                stack=words.stack,
                mode=_trace_mode(launched.attempt.mode),
                identity=f"{code}@{place_words(where)}",
                run=RunId(planned.info.name, planned.probe),
            )
        )
        report = TargetReport(
            name=planned.info.name,
            kind=planned.info.kind,
            range=planned.info.range,
            status="timeout" if timeout else "crashed",
            mode=_trace_mode(launched.attempt.mode),
            probe=planned.probe_info,
            seconds=round(time.monotonic() - watched.started, 4),
            error=cause,
            probe_number=planned.probe,
        )
        self._send_report(report)

    # -- limits -------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of pending runs; each needs a process."""
        return len(self._pending)

    def next_deadline(self) -> float:
        return min(self._supervisor.next_deadline, self._retry_at)

    def tick(self, now: float) -> None:
        """Retry a postponed process start, and interrupt, then kill, the processes that exceed
        their limits at time ``now``."""
        if now >= self._retry_at:
            self._retry()
        self._supervisor.tick(now)
        for one in self._enclosing_runs():
            if one.watched.cause is not None and not one.over:
                # Runs can still be launched from existing snapshots; the other runs continue
                # without one.
                self._enclosing_over(one)
                self._launch_pending()

    @property
    def source(self) -> int:
        """Pid of the saved process, with imports executed, that the module process is forked from;
        0 without one."""
        return self._process.source if self._process is not None else 0

    def find_parent(self, process: WatchedProcess) -> int:
        """Return the pid of the process that ``process`` was forked from; 0 if it is unknown."""
        for launched in self._running.values():
            if launched.watched is process and launched.snapshot_of is not None:
                return launched.snapshot_of.pid
        module = self._module.pid if self._module is not None else 0
        return module or self.source

    def count_children(self, process: WatchedProcess) -> int:
        """Return the number of processes forked from ``process``; 0 unless it is the module
        process."""
        if process is not self._module:
            return 0
        return len(self._running) + sum(1 + one.left for one in self._enclosing_runs())

    # -- the end ------------------------------------------------------------------------------

    def cancel(self) -> None:
        self._finish(cancelled=True)

    def _finish(self, *, cancelled: bool = False, last: Failed | None = None) -> None:
        if self._finished:
            return
        self._finished = True
        pids = self._supervisor.pids
        pids += [one.pid for one in self._enclosing_runs() if one.pid]
        for pid in pids:
            processes.kill_process(pid)
        for launched in self._running.values():
            self._supervisor.release(launched.watched)
        self._running.clear()
        for one in self._enclosing_runs():
            self._supervisor.release(one.watched)
            one.process.close()
        self._enclosing.clear()
        if self._module is not None:
            self._supervisor.release(self._module)
            self._module = None
        self._close()
        request = self.request
        seconds = round(time.monotonic() - self._started, 4)
        if not cancelled and last is None and "first" in request.parts:
            self._report_silent()
        if self._unparsable is not None:
            reason = f"The file does not parse: {self._unparsable}."
            last = Failed(request.request, reason, "Findings follow once it does.")
        if request.timings:
            phases = (PhaseTime("waiting", round(self._waited, 6)), *self._phases)
            self._host.send(Timings(request.request, None, seconds + self._waited, phases))
        if last is not None:
            self._host.send(last)
        else:
            self._host.send(Analyzed(request.request, request.generation, seconds, cancelled))
        self._host.remove_request(request.request)
        self._host.clean_up(pids, self.scratch)

    def _close(self) -> None:
        if self._process is not None:
            for calls in self._calls:
                self._process.repeat_calls(calls)
            self._calls.clear()
            self._process.close()
            self._process = None

    # -- telling ------------------------------------------------------------------------------

    def _send_finding(self, finding: Finding) -> None:
        self._host.send(FindingFound(self.request.request, finding))

    def _send_report(self, report: TargetReport) -> None:
        self._reported.add((report.name, report.range))
        self._host.send(
            TargetDone(self.request.request, hide_unseen_counts(report, self._host.degraded))
        )

    def _frame_range(self, frame: Frame | None) -> Range | None:
        return None if frame is None else frames.range_of(frame, self._text_lines())

    def _text_lines(self) -> list[str]:
        if not self._lines:
            self._lines = syntax.lines_of(self.request.text)
        return self._lines


def _numbered_report(launched: LaunchedRun, done: RunDone) -> TargetReport:
    """Return the report of a run with two additions: the number of the inputs, and the digest of
    the recorded call's arguments (None without a recorded call)."""
    plan, one = launched.attempt.plan, launched.snapshot_of
    taken = one.taken.get(plan.at) if one is not None else None
    call = taken.call if taken is not None else None
    return replace(done.report, probe_number=plan.probe, called=call)


def _with_answer(attempt: Attempt, speculation: Speculation) -> Attempt:
    answers = (speculation.answer,) if speculation.answer is not None else ()
    return replace(attempt, answers=answers)


def _restart_notes(statement: int | None) -> tuple[str, ...]:
    """Return the note that the module is executed again without the statement that ended the
    process; no note if ``statement`` is None."""
    if statement is None:
        return ()
    if statement == PACKAGES:
        return ("fullgraph executes the module again without the packages that it is in.",)
    return ("fullgraph executes the module again without this statement.",)


def _trace_mode(mode: Mode) -> TraceMode:
    return "real" if mode == "real" else "fake"


def _missing_answer(
    question: BranchBegun, code: int | None, watched: WatchedProcess, request: Analyze
) -> BranchAnswer:
    """Return a substitute answer that explains why the process exited with ``code`` before it
    answered ``question``."""
    used = time.monotonic() - watched.started
    if watched.cause == "timeout" or limits.ran_out_of_time(code):
        lost = branches.late_words(question.seconds)
        return BranchAnswer(question.name, lost=lost, late=True, used=used)
    lost = (
        branches.describe_end(code)
        if watched.cause is None
        else explain_end(code, watched, request.limits)
    )
    return BranchAnswer(question.name, lost=lost, used=used)
