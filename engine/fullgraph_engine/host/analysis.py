"""Handle an ``Analyze`` request: execute the user's file, trace its targets and send the results.

A target is a function or module class of the file. ``plan`` decides what to trace next,
``analysis_processes`` starts and stops the processes, and ``reporter`` sends the results to the
server.
"""

from __future__ import annotations

import os
import time

from ..protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    FindingFound,
    Importing,
    Log,
    OperatorsRegistered,
    Status,
    TargetDone,
    TargetsFound,
    Timings,
)
from ..protocol.files import FilesRead
from ..protocol.timings import PhaseTime
from . import blackbox, shortage, wire
from .analysis_processes import AnalysisProcesses, LaunchedRun, ModuleExecution
from .enclosing_run import EnclosingRun
from .module_plan import ModulePlan
from .owned_process import ProcessEnd
from .plan import RunPlan
from .reporter import Reporter
from .services import Services
from .supervision import ANSWER_SECONDS, explain_end, was_ended_outside
from .tasks import (
    Finish,
    Launch,
    LaunchEnclosing,
    ReportCompilation,
    ReportEqualCalls,
    ReportLostRun,
    ReportMissingCompilation,
    ReportMissingForecast,
    ReportMissingPaths,
    ReportObservation,
    ReportPaths,
    ReportRun,
    ReportSkipped,
    ReportUnstarted,
    ReportWithin,
    StopRun,
    Task,
)
from .wire import (
    BranchAnswer,
    BranchBegun,
    ChildExited,
    ChildForked,
    ForkFailed,
    LateImports,
    ModuleOrder,
    OperatorCalls,
    PhasesTaken,
    PreambleStale,
    RunDone,
    RunsPlanned,
    StageBegun,
    TextUnparsable,
    Upward,
)

_MODULE_ENDED = "the process that executed the file ended"


class Analysis:
    """The state of one ``Analyze`` request.

    Its processes are the module process, which executes the user's file, and the runs forked from
    it, which each trace one target (a function or module class). Every run ends before ``until``, a
    time of ``time.monotonic``.
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
        self._host = host
        self._started, self._waited = time.monotonic(), waited
        self._plan = RunPlan(request, host.found, host.expected_paths, until)
        self._module_plan = ModulePlan()
        self._processes = AnalysisProcesses(request, host)
        self._supervisor = self._processes.supervisor
        self._reporter = Reporter(request, host)
        self._shortage = shortage.Shortage()
        self._phases: tuple[PhaseTime, ...] = ()
        """Durations of the phases (such as imports) of all processes that executed the user's file,
        in chronological order."""
        self._finished = False

    # -- the module process -------------------------------------------------------------------

    def begin(self) -> None:
        """Start a process that executes the user's file.

        It skips the top-level statements that ended earlier processes of this request. If the
        system lacks resources, the start is repeated later.
        """
        self._plan.planned = False
        skips, began = self._module_plan.begin(), time.monotonic()
        order = ModuleOrder(self.request, self.scratch, skips, began=began)
        try:
            self._processes.execute_module(order, self._read_module)
        except OSError as error:
            self._wait_or_fail(error)
        else:
            self._shortage.end()

    def _wait_or_fail(self, error: OSError) -> None:
        if not self._may_wait(error):
            reason = f"The engine could not start a process: {shortage.shortage_words(error)}."
            next_step = "Close other programs or files, then try again."
            self._finish(last=Failed(self.request.request, reason, next_step))

    def _may_wait(self, error: OSError) -> bool:
        """Schedule another attempt to start a process if ``error`` is a temporary shortage of
        resources.

        Return False for other errors, or if the shortage has lasted too long.
        """
        if not shortage.is_short(error):
            return False
        now = time.monotonic()
        if self._shortage.begin(now):
            text = f"{shortage.shortage_words(error)}: {self.request.path} waits.\n"
            self._host.send(Log(self.request.request, "engine", text))
        made_room, active = self._host.backend.make_room(), bool(self._processes.running)
        return self._shortage.may_wait(now, made_room=made_room, active=active)

    def _retry(self) -> None:
        self._shortage.retry()
        if self._processes.module is not None or self._plan.planned:
            self._advance()
        else:
            self.begin()

    def _read_module(self) -> None:
        module = self._processes.module
        if module is None:
            return
        watched = module.watched
        for line in watched.reports.read():
            self._from_module(module, line)
        if watched.reports.ended and module is self._processes.module:
            # The process is ending, or user code closed the pipe that carries its messages.
            if watched.cause is None:
                watched.deadline, watched.late = time.monotonic() + ANSWER_SECONDS, "lost"
            self._host.unwatch(watched.reports.descriptor)

    def _from_module(self, module: ModuleExecution, line: bytes) -> None:
        if module is not self._processes.module:
            # Ignore messages of a process that was ended, or that now traces a target.
            return
        message = self._parse_own(line)
        if self._supervisor.reports_too_much(module.watched, line):
            return
        if isinstance(message, StageBegun):
            self._supervisor.begin_stage(
                module.watched, message, _stage_seconds(self.request, message)
            )
        elif isinstance(message, RunsPlanned):
            self._add_runs(module, message)
        elif isinstance(message, (LateImports, ChildForked, ForkFailed, ChildExited)):
            self._processes.handle_module_message(message)
        elif isinstance(message, PreambleStale):
            if self._module_plan.handle_stale():
                self._start_afresh()
        elif isinstance(message, TextUnparsable):
            if self._module_plan.handle_unparsable(message.reason):
                self._finish()
        elif isinstance(
            message, (FindingFound, TargetDone, TargetsFound, OperatorsRegistered, FilesRead, Log)
        ):
            if isinstance(message, TargetsFound):
                self._module_plan.add_targets()
            self._reporter.forward_once(line, message)
        elif isinstance(message, Importing):
            self._reporter.forward(line)
        elif isinstance(message, PhasesTaken):
            self._phases += message.phases

    def _parse_own(self, line: bytes) -> Upward | Event | None:
        """Decode a line from a process of this request; return None if it names another request,
        which user code can forge."""
        message = wire.parse_message(line)
        number = self.request.request
        return message if getattr(message, "request", number) == number else None

    def _add_runs(self, module: ModuleExecution, message: RunsPlanned) -> None:
        if self._plan.planned:
            return
        # A process that was interrupted at its deadline finished soon enough.
        watched = module.watched
        watched.cause, watched.kill_at, watched.is_timed = None, float("inf"), False
        self._processes.handle_module_message(message)
        self._plan.add_runs(message.runs)
        self._advance()

    def _start_afresh(self) -> None:
        """Execute the user's file again, without the process that was kept after its imports.

        The imports that the kept process had executed are not the current imports of the file.
        """
        self._processes.discard_source()
        self._host.found.forget_unfound(self.request.path)
        self._processes.release_module()
        self.begin()

    def _end_module(self, module: ModuleExecution, code: int | None) -> None:
        watched = module.watched
        for line in watched.reports.drain():
            self._from_module(module, line)
        self._handle_ends()  # these messages may report that runs have ended
        if module is not self._processes.module:
            return
        words = blackbox.read_last_words(watched.box, self.request.path)
        self._processes.release_module()
        cause, late = explain_end(code, watched, self.request.limits), watched.cause == "timeout"
        after = self._module_plan.handle_end(
            words.statement,
            cause,
            killed=was_ended_outside(code, watched),
            planned=self._plan.planned,
        )
        if after == "repeat":
            self._processes.release_runs()
            self._plan.restart()
            self._retry()
            return
        if after == "lose runs":
            self._lose_runs(code, f"{_MODULE_ENDED}: {cause}")
            self._finish()
            return
        self._reporter.report_statement_end(words, cause, late=late)
        if after == "skip statement":
            self.begin()
            return
        status: Status = "timeout" if late else "crashed"
        self._reporter.report_silent(f"The file could not be executed: {cause}", status)
        self._finish()

    def _lose_runs(self, code: int | None, cause: str) -> None:
        """Report all remaining runs as crashed, because the process that executed the user's file
        ended.

        ``code`` is its exit code (None if unknown), and ``cause`` is a clause for the user that
        explains the end.
        """
        for launched in list(self._processes.running.values()):
            self._end_run(launched, code, cause)
        for task in self._plan.lose_runs(cause):
            self._perform(task)

    # -- tasks --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Perform tasks of the plan while one can be performed without waiting for a running
        process."""
        while not self._finished:
            task = self._plan.next_task(time.monotonic())
            if task is None or not self._perform(task):
                return

    def _perform(self, task: Task) -> bool:
        """Perform a task that the plan returned.

        Return False if the system lacks the resources for it, so that it must be tried again later.
        """
        reporter = self._reporter
        match task:
            case Launch():
                return self._launch(task)
            case LaunchEnclosing():
                if not self._processes.launch_enclosing(task, self._read_enclosing):
                    self._plan.refuse_enclosing(task.key)
            case StopRun():
                self._processes.running[task.number].stop()
            case ReportRun():
                reporter.report_run(task.end, task.before)
            case ReportObservation():
                reporter.report_observation(task.result)
            case ReportUnstarted():
                reporter.report_unstarted(task.attempt, task.error)
                if task.lost:
                    reporter.report_lost_target(task.attempt, task.lost)
            case ReportSkipped():
                reporter.report_skipped(task.plan)
            case ReportWithin():
                reporter.report_within(task.plan, task.caller)
            case ReportMissingForecast():
                reporter.report_missing_forecast(task.plan, task.note)
            case ReportLostRun():
                reporter.report_lost_run(task.attempt)
            case ReportPaths():
                reporter.report_paths(task.first, task.done)
            case ReportCompilation():
                reporter.report_compilation(task.first, task.compilation)
            case ReportMissingCompilation():
                reporter.report_missing_compilation(task.first, task.attempt, task.reason)
            case ReportMissingPaths():
                reporter.report_missing_paths(task.first, task.status, task.reason)
            case ReportEqualCalls():
                reporter.report_equal_calls(task.plan, task.sources)
            case Finish():
                self._finish()
        return True

    def _launch(self, task: Launch) -> bool:
        """Launch a run (a process that traces one target), or report that it could not be started.

        Return False if it must be tried again later.
        """
        number = task.command.number
        try:
            launched = self._processes.launch(task, self._read_run)
        except OSError as error:
            return self._handle_refusal(number, error)
        if launched is not None:
            self._shortage.end()
            self._reporter.report_start(task.attempt.plan)
            return True
        self._plan.put_back(number)
        if task.enclosing is None:
            return False
        # The enclosing run and its snapshots are ending.
        self._stop_recording(self._processes.enclosing[task.enclosing], lost=True)
        return True

    def _handle_refusal(self, number: int, error: OSError) -> bool:
        """Handle a failed start of the process of run ``number``.

        Return False if the run was put back into the queue for a later attempt, True if it was
        reported as failed.
        """
        if self._may_wait(error):
            self._plan.put_back(number)
            return False
        for task in self._plan.refuse_run(number, shortage.shortage_words(error)):
            self._perform(task)
        return True

    # -- runs ---------------------------------------------------------------------------------

    def _read_run(self, launched: LaunchedRun) -> None:
        reports = launched.watched.reports
        for line in reports.read():
            self._from_run(launched, line)
        if launched.result.done is not None or launched.result.answer is not None:
            # All results have arrived. Do not wait until the process has freed its memory.
            self._end_run(launched, 0)
            self._advance()
        elif reports.ended:
            # The exit status of this run arrives later from the module process.
            self._host.unwatch(reports.descriptor)

    def _from_run(self, launched: LaunchedRun, line: bytes) -> None:
        message, result = self._parse_own(line), launched.result
        if self._supervisor.reports_too_much(launched.watched, line):
            return
        if isinstance(message, StageBegun):
            self._supervisor.begin_stage(
                launched.watched, message, _stage_seconds(self.request, message)
            )
        elif isinstance(message, OperatorCalls):
            self._processes.add_calls(message)
        elif isinstance(message, RunDone):
            result.done = message
        elif isinstance(message, BranchBegun):
            result.question = message
        elif isinstance(message, BranchAnswer):
            result.answer = message
        else:
            self._reporter.take_run_message(result, line, message)

    def _end_run(self, launched: LaunchedRun, code: int | None, module_end: str = "") -> None:
        """Report the result of a run whose process exited with ``code``, or plan to repeat the run.

        The run also ends if the process that executed the file ends. ``module_end`` is then a
        clause with the reason; otherwise it is empty.
        """
        for line in launched.watched.reports.drain():
            self._from_run(launched, line)
        end = launched.describe_end(code, self.request, module_end)
        self._processes.release_run(launched)
        for task in self._plan.end_run(end):
            self._perform(task)

    # -- enclosing runs -----------------------------------------------------------------------

    def _read_enclosing(self, one: EnclosingRun) -> None:
        reports = one.watched.reports
        for line in reports.read():
            message = one.take_message(wire.parse_message(line))
            if isinstance(message, wire.SnapshotTaken):
                self._plan.add_snapshot(one.key, message)
            elif message is not None:
                self._plan.add_uncalled(one.key, message)
            if one.is_complete:
                self._stop_recording(one)
            self._advance()
            if self._finished:
                return
        if reports.ended:
            self._host.unwatch(reports.descriptor)

    def _stop_recording(self, one: EnclosingRun, *, lost: bool = False) -> None:
        """Stop waiting for calls from an enclosing run, a process that executes callers of targets
        to record their calls.

        Runs that waited for a call are launched without it. ``lost``: the snapshots (copies of the
        process at the recorded calls) have ended too, so no run can be forked from them.
        """
        one.stop_recording()
        for task in self._plan.end_enclosing(one.key, lost=lost):
            self._perform(task)

    def _end_enclosing(self, one: EnclosingRun) -> None:
        """Handle the end of the first process of an enclosing run (a run of code that calls
        targets).

        That end also ends the snapshots (copies of the process at the recorded calls) and the runs
        forked from the snapshots.
        """
        one.lose_snapshots()
        self._stop_recording(one, lost=True)
        for launched in list(self._processes.running.values()):
            if launched.snapshot_of is one:
                self._end_run(launched, None)

    # -- limits -------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of planned runs (traces of targets) that still need a process."""
        return self._plan.waiting

    def next_deadline(self) -> float:
        return min(self._supervisor.next_deadline, self._shortage.retry_at)

    def tick(self, now: float) -> None:
        """Handle the ends of processes, retry a postponed process start, and interrupt, then kill,
        the processes that exceed their limits at time ``now``."""
        self._handle_ends()
        if self._finished:
            return
        if now >= self._shortage.retry_at:
            self._retry()
        self._supervisor.tick(now)
        for one in list(self._processes.enclosing.values()):
            if one.was_interrupted:
                # Runs can still be launched from existing snapshots; the other runs continue
                # without one.
                self._stop_recording(one)
                self._advance()

    def _handle_ends(self) -> None:
        while self._processes.ends and not self._finished:
            self._handle_end(self._processes.ends.popleft())

    def _handle_end(self, end: ProcessEnd) -> None:
        """Handle the end or the failed start of a process; ignore processes that were released
        before."""
        process = end.process
        error = OSError(end.error, os.strerror(end.error)) if end.error else None
        if not self._processes.is_active(process):
            return
        if isinstance(process, ModuleExecution) and error is not None:
            self._processes.release_module()
            self._wait_or_fail(error)
        elif isinstance(process, ModuleExecution):
            self._end_module(process, end.code)
        elif isinstance(process, EnclosingRun):
            self._end_enclosing(process)
            self._advance()
        elif isinstance(process, LaunchedRun) and error is not None:
            self._processes.release_run(process)
            if self._handle_refusal(process.number, error):
                self._advance()
        elif isinstance(process, LaunchedRun):
            self._end_run(process, end.code)
            self._advance()

    # -- the end ------------------------------------------------------------------------------

    def prioritize(self, first: int, last: int) -> None:
        """Launch first the runs of the targets nearest to the zero-based lines ``first`` to
        ``last``."""
        self._plan.prioritize(first, last)

    def cancel(self) -> None:
        self._finish(cancelled=True)

    def _finish(self, *, cancelled: bool = False, last: Failed | None = None) -> None:
        if self._finished:
            return
        self._finished = True
        pids = self._processes.end_all()
        request = self.request
        seconds = round(time.monotonic() - self._started, 4)
        if not cancelled and last is None and "first" in request.parts:
            self._reporter.report_silent()
        if self._module_plan.unparsable is not None:
            reason = f"The file does not parse: {self._module_plan.unparsable}."
            last = Failed(request.request, reason, "Correct the syntax error to get findings.")
        if request.timings:
            phases = (PhaseTime("waiting", round(self._waited, 6)), *self._phases)
            self._host.send(Timings(request.request, None, seconds + self._waited, phases))
        if last is not None:
            self._host.send(last)
        else:
            cpu = self._supervisor.cpu
            self._host.send(Analyzed(request.request, request.generation, seconds, cancelled, cpu))
        self._host.remove_request(request.request)
        self._host.clean_up(pids, self.scratch)


def _stage_seconds(request: Analyze, begun: StageBegun) -> float:
    """Return the time limit in seconds of the stage that a process begins: executing the user's
    file, or one run."""
    limits = request.limits
    longest_run = max(limits.seconds, request.compiler_seconds)
    return limits.module_seconds if begun.stage == "module" else longest_run
