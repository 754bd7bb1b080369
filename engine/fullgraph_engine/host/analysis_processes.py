"""The processes of one analysis.

The module process executes the user's file. Each run traces one target (a function or module class)
with one set of inputs. An enclosing run executes callers of targets to record their inputs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Union

from ..protocol import Analyze, SharedImports
from . import blackbox, wire
from .attempts import RunEnd, RunResult
from .enclosing_run import EnclosingRun
from .owned_process import OwnedProcess, ProcessEnd
from .process_backends import LaunchedProcess, ModuleProcess, branches, limits, processes
from .services import Services
from .supervision import (
    ANSWER_SECONDS,
    Supervisor,
    WatchedProcess,
    explain_end,
    was_ended_outside,
)
from .tasks import EnclosingKey, Launch, LaunchEnclosing
from .wire import (
    BranchAnswer,
    BranchBegun,
    ChildExited,
    ChildForked,
    ForkFailed,
    LateImports,
    ModuleOrder,
    OperatorCalls,
    RunsPlanned,
)

_MODULE_ANSWER_SECONDS = 2.0
"""Maximum seconds between interrupting the process that executes the user's file, at its deadline,
and killing it. Meanwhile it executes the remaining statements."""


ModuleMessage = Union[ChildForked, ForkFailed, ChildExited, LateImports, RunsPlanned]
"""Message of the process that executes the user's file, addressed to the back end that starts its
runs."""


class ModuleExecution(OwnedProcess):
    """A process that executes the user's file, watched until it ends or continues as a run."""

    released = False

    def set_pid(self, pid: int) -> None:
        if not self.released:
            self.watched.pid = pid
        elif pid:  # the analysis abandoned this process before its pid was known
            processes.kill_trees([pid])


class LaunchedRun(OwnedProcess):
    """A run (a process that traces one target with one set of inputs) that was requested from the
    back end.

    If the run traces a recorded call, ``snapshot_of`` is the process that executed the target's
    callers: the run is forked from a snapshot, a copy of that process made at the call. Otherwise
    ``snapshot_of`` is None, and the run is forked from the process that executed the file.
    """

    def __init__(
        self,
        ends: deque[ProcessEnd],
        launch: Launch,
        snapshot_of: EnclosingRun | None,
        *,
        nice: bool,
    ) -> None:
        super().__init__(ends)
        self.number, self.snapshot_of = launch.command.number, snapshot_of
        self.result = RunResult(launch.attempt, launch.call)
        self._nice, self._stopped = nice, False

    def set_pid(self, pid: int) -> None:
        self.watched.pid = pid
        if self._nice:
            processes.give_way(pid)
        if self._stopped:
            processes.kill_trees([pid])

    def stop(self) -> None:
        """Kill the process of this run now, or as soon as its pid is known."""
        self._stopped = True
        if self.watched.pid:
            processes.kill_trees([self.watched.pid])

    def describe_end(self, code: int | None, request: Analyze, module_end: str) -> RunEnd:
        """Return how the run ended, for reports to the user; ``code`` is the exit code of its
        process.

        The run also ends if the process that executed the file ends. ``module_end`` is then a
        clause with the reason; otherwise it is empty.
        """
        watched, result = self.watched, self.result
        cause = explain_end(code, watched, request.limits)
        answer = result.answer if result.question is not None else None
        if result.question is not None and answer is None:
            answer = self._missing_answer(result.question, code, cause)
        return RunEnd(
            self.number,
            result,
            module_end if module_end and watched.cause is None else cause,
            blackbox.read_last_words(watched.box, request.path),
            seconds=round(time.monotonic() - watched.started, 4),
            waited=watched.waiting,
            late=watched.cause == "timeout",
            repeats=watched.is_slow_by_itself,
            killed=was_ended_outside(code, watched),
            answer=answer,
        )

    def _missing_answer(self, question: BranchBegun, code: int | None, cause: str) -> BranchAnswer:
        """Return a failed result for ``question``, a function that the process should have
        evaluated before it ended.

        The result states why it is missing: the time limit, or the process's end with exit code
        ``code`` for the reason ``cause``.
        """
        watched = self.watched
        used = time.monotonic() - watched.started
        if watched.cause == "timeout" or limits.ran_out_of_time(code):
            lost = branches.late_words(question.seconds)
            return BranchAnswer(question.name, lost=lost, late=True, used=used)
        lost = branches.describe_end(code) if watched.cause is None else cause
        return BranchAnswer(question.name, lost=lost, used=used)


class AnalysisProcesses:
    """The processes of one analysis, which can be started, stopped and released (no longer
    watched).

    It also records which process was forked from which.
    """

    def __init__(self, request: Analyze, host: Services) -> None:
        self._request, self._host = request, host
        self.supervisor = Supervisor(host, request.request, request.limits, self)
        self.ends: deque[ProcessEnd] = deque()
        """Queue of the ends of processes, to be handled by the analysis."""
        self.module: ModuleExecution | None = None
        """The process that executes the user's file; None after it has ended or continues as a
        run."""
        self.running: dict[int, LaunchedRun] = {}
        self.enclosing: dict[EnclosingKey, EnclosingRun] = {}
        self._launcher: ModuleProcess | None = None
        """Back end's handle of the process that executes the user's file, which starts the runs."""
        self._calls: list[OperatorCalls] = []
        """Calls of PyTorch operators on fake tensors that the runs made. The process kept after the
        file's imports repeats them, to fill torch's fake tensor cache for later analyses."""

    def is_active(self, process: OwnedProcess) -> bool:
        """Whether a process is still watched, and was not replaced by a later one of the same
        kind."""
        active = (self.module, *self.running.values(), *self.enclosing.values())
        return any(one is process for one in active)

    # -- the module process -------------------------------------------------------------------

    def execute_module(self, order: ModuleOrder, ready: Callable[[], None]) -> None:
        """Start a process that executes the user's file, as ``order`` describes. ``ready`` is
        called when it has sent messages.

        Raises:
            OSError: the system lacks resources for another process.
        """
        module = ModuleExecution(self.ends)
        # Do not keep the process for later edits if it skips statements or may start programs.
        alone = bool(order.skip) or wire.starts_programs(self._request)
        kept = self._request.keep or bool(self._request.shared_imports.modules)
        keep = kept and not alone
        launcher = self._host.backend.execute_module(order, module, keep=keep)
        made = LaunchedProcess(launcher.channels, launcher.pid, launcher.begun)
        seconds = self._request.limits.module_seconds
        module.watched = self.supervisor.add(made, "module", seconds)
        module.watched.late_answer_seconds = _MODULE_ANSWER_SECONDS
        self.module, self._launcher = module, launcher
        self._host.watch(made.channels.reports, ready)

    def handle_module_message(self, message: ModuleMessage) -> None:
        """Pass a message of the process that executes the user's file to the back end."""
        if self._launcher is not None:
            self._launcher.handle_message(message)

    def discard_source(self) -> None:
        """End the kept process (kept after a file's imports) from which the process that executes
        the file was forked."""
        self._request = replace(self._request, shared_imports=SharedImports())
        if self._launcher is not None:
            self._launcher.discard_source()

    def release_module(self) -> None:
        """Stop watching the process that executes the user's file, and start no more runs from
        it."""
        module, self.module = self.module, None
        if module is not None:
            module.released = True
            self.supervisor.release(module.watched)
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            for calls in self._calls:
                launcher.repeat_calls(calls)
            self._calls.clear()
            launcher.close()

    def add_calls(self, calls: OperatorCalls) -> None:
        """Store operator calls of a run until the analysis is over.

        After that, the process kept after the file's imports repeats the calls, to fill torch's
        fake tensor cache.
        """
        self._calls.append(calls)

    # -- runs ---------------------------------------------------------------------------------

    def launch(self, task: Launch, ready: Callable[[LaunchedRun], None]) -> LaunchedRun | None:
        """Start a run; ``ready`` is called when the run has sent messages. Return None if the
        process that should fork the run has ended.

        Raises:
            OSError: the system lacks resources for another process.
        """
        command, nice = task.command, self._request.nice > 0
        snapshot_of = self.enclosing.get(task.enclosing) if task.enclosing is not None else None
        source = self._launcher if snapshot_of is None else snapshot_of.process
        launched = LaunchedRun(self.ends, task, snapshot_of, nice=nice)
        made = source and source.launch(command, task.attempt.plan.probe_info, launched)
        if not made:
            return None
        if made.taken_over and self.module is not None:
            launched.watched, self.module = self.module.watched, None
            self._host.unwatch(made.channels.reports)
            launched.watched.enter_stage("run", command.seconds)
            launched.watched.late_answer_seconds = ANSWER_SECONDS
        else:
            launched.watched = self.supervisor.add(made, "run", command.seconds)
        self.running[launched.number] = launched
        self._host.watch(made.channels.reports, lambda: ready(launched))
        return launched

    def release_run(self, launched: LaunchedRun) -> None:
        del self.running[launched.number]
        self.supervisor.release(launched.watched)

    def launch_enclosing(
        self, task: LaunchEnclosing, ready: Callable[[EnclosingRun], None]
    ) -> bool:
        """Start an enclosing run (a run of callers that records their inputs).

        ``ready`` is called when it has sent messages. Return False if it could not be started.
        """
        command, nice = task.command, self._request.nice > 0
        one = EnclosingRun(self.ends, command.number, task.key, nice=nice)
        try:
            process = self._launcher and self._launcher.launch_enclosing(command, one)
        except OSError:
            return False
        if process is None:
            return False
        made = LaunchedProcess(process.channels)
        one.process, one.watched = process, self.supervisor.add(made, "run", command.seconds)
        self.enclosing[task.key] = one
        self._host.watch(process.channels.reports, lambda: ready(one))
        return True

    def release_runs(self) -> None:
        """Stop watching all processes that trace targets or record the inputs of targets."""
        for launched in list(self.running.values()):
            self.release_run(launched)
        for one in self.enclosing.values():
            self.supervisor.release(one.watched)
            one.process.close()
        self.enclosing.clear()

    def end_all(self) -> list[int]:
        """Kill and release all processes; return their pids."""
        pids = self.supervisor.pids
        pids += [one.first_pid for one in self.enclosing.values() if one.first_pid]
        for pid in pids:
            processes.kill_process(pid)
        self.release_runs()
        self.release_module()
        return pids

    # -- for the supervisor -------------------------------------------------------------------

    @property
    def source(self) -> int:
        """Pid of the kept process (kept after a file's imports) from which the process that
        executes the file was forked; 0 without one."""
        return self._launcher.source if self._launcher is not None else 0

    def find_parent(self, process: WatchedProcess) -> int:
        """Return the pid of the process from which ``process`` was forked; 0 if it is unknown."""
        for launched in self.running.values():
            if launched.watched is process and launched.snapshot_of is not None:
                return launched.snapshot_of.first_pid
        module = self.module.watched.pid if self.module is not None else 0
        return module or self.source

    def count_children(self, process: WatchedProcess) -> int:
        """Return the number of watched processes forked from ``process``; 0 unless it executes the
        user's file."""
        if self.module is None or process is not self.module.watched:
            return 0
        return len(self.running) + sum(1 + one.left for one in self.enclosing.values())
