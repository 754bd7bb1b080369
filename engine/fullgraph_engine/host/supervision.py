"""Supervise processes that run user code: their output, deadlines, limits and end.

A supervisor does not know what a process is for. It interrupts a process that exceeds a limit, so
that the process can report where it is, and kills it if that does not help.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from ..protocol import Limits, Log
from . import run
from .lines import LineReader
from .output import OutputBudget, OutputCapture
from .process_backends import LaunchedProcess, descriptors, processes
from .process_backends.limits import MEMORY_SLACK, MIB
from .wire import Stage, StageBegun

ANSWER_SECONDS = 0.3
"""Number of seconds between the interruption of a process and its kill, unless the process has a
value of its own."""

_STAGES: tuple[Stage, ...] = ("start", "module", "run")
"""Stages of a process (startup, executing the file, a run), in the order in which it passes through
them."""
_START_SECONDS = 120.0
"""Maximum seconds for a new process to start and to import torch."""
_MEASURE_SECONDS = 0.5
"""Number of seconds between two measurements of memory, files and processes."""
_LEAST_PROLONGED = 0.05
"""Minimum seconds by which a deadline is postponed; a shorter wait for a processor does not
count."""
_MOST_WAITED = 0.2
"""Maximum share of its time limit that a process may wait for a processor to count as slow by
itself."""
_MOST_REPORTED = 256 * MIB
"""Maximum bytes of messages that one process may send. Large models need a thousandth of it."""
_MOST_KILLS = 8
"""Maximum number of attempts, one second apart, to kill a process by its pid. Afterwards the pid is
assumed to be wrong."""

Cause = Literal["timeout", "memory", "files", "processes", "lost", "stopped", "talk"]
"""Reasons why the engine ends a process: its time or memory is exhausted, its files are too large,
it has started too many processes, it has closed the pipe for messages, a signal has stopped it, or
it has sent too many messages."""


@dataclass(eq=False)
class WatchedProcess:
    """A process with limits on time, memory and output; ``pid`` is 0 until it is known.

    ``box`` is the descriptor of the file in which the process records its last stack. ``started``,
    ``deadline`` and ``kill_at`` are times of ``time.monotonic``.
    """

    pid: int
    reports: LineReader
    captures: list[OutputCapture]
    box: int
    stage: Stage
    seconds: float
    """Time limit in seconds of the current stage (startup, executing the file, or a run)."""
    started: float
    deadline: float
    late: Cause = "timeout"
    """Reason (a ``Cause``) for ending the process if it is still running at its deadline."""
    cause: Cause | None = None
    """Reason why the process was interrupted and will be killed soon; None while it may
    continue."""
    kill_at: float = float("inf")
    answer_seconds: float = ANSWER_SECONDS
    """Number of seconds between interrupting the process for exceeding a limit other than its
    deadline, and killing it."""
    late_answer_seconds: float = ANSWER_SECONDS
    """Number of seconds between interrupting the process at its deadline and killing it."""
    is_timed: bool = True
    """True if the deadline applies. It does not while a process waits for commands after it has
    executed the user's file."""
    reported: int = 0
    """Number of bytes of messages that the process has sent."""
    kills: int = 0
    """Number of attempts so far to kill the process."""
    waited_before: float = 0.0
    """Processor waiting time in seconds before the current stage (startup, executing the file, or a
    run) began."""
    waited: float | None = None
    """Processor waiting time in seconds of the current stage when the process exceeded its time
    limit; None if it did not, or if unknown."""
    waiting: float = 0.0
    """Processor waiting time in seconds of the current stage when it was last measured; 0 if
    unknown."""
    cpu: float | None = None
    """Processor time in seconds that the process had used when it was last measured; None if it was
    not, or if unknown."""

    def enter_stage(self, stage: Stage, seconds: float) -> None:
        """Begin a stage (startup, executing the file, or a run) with its own time limit.

        A kill scheduled in the previous stage is canceled.
        """
        now = time.monotonic()
        self.cause, self.kill_at, self.is_timed = None, float("inf"), True
        self.stage, self.seconds, self.started, self.deadline = stage, seconds, now, now + seconds
        self.waited_before = self.measure_processor_time().waited or 0.0
        self.waiting = 0.0

    @property
    def is_slow_by_itself(self) -> bool:
        """Whether the process exceeded its time limit although it hardly waited for a processor.

        Otherwise it may have been slow only because other programs kept the machine busy.
        """
        return self.waited is not None and self.waited < _MOST_WAITED * self.seconds

    def measure_processor_time(self) -> processes.ProcessorTime:
        """Return the processor time that the process has used, and store it in ``cpu`` and
        ``waiting``."""
        measured = processes.read_processor_time(self.pid) if self.pid else None
        if measured is not None:
            self.cpu = max(measured.used, self.cpu or 0.0)
            self.waiting = max((measured.waited or 0.0) - self.waited_before, 0.0)
        return measured or processes.ProcessorTime()


class SupervisorHost(Protocol):
    """The operations of the event loop that a supervisor uses."""

    scratch: str

    def send(self, event: Log) -> None: ...

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None: ...

    def unwatch(self, descriptor: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    def kill_strangers(self, parents: dict[int, int]) -> None: ...


class Family(Protocol):
    """An interface that tells a supervisor how the processes of a request descend from each
    other."""

    @property
    def source(self) -> int:
        """Pid of the process, kept from an earlier request, that the processes of this request are
        forked from; 0 if there is none."""
        ...

    def find_parent(self, process: WatchedProcess) -> int:
        """Return the pid of the process that ``process`` was forked from; 0 if it is unknown."""
        ...

    def count_children(self, process: WatchedProcess) -> int:
        """Return the number of the request's processes that were forked from ``process``."""
        ...


class SingleProcess:
    """The family of a request whose processes are not forked from each other: every pid and count
    in it is 0."""

    source = 0

    def find_parent(self, process: WatchedProcess) -> int:
        return 0

    def count_children(self, process: WatchedProcess) -> int:
        return 0


class Supervisor:
    """A supervisor of the processes of one request, which interrupts and then kills those over a
    limit of time, memory, files or output."""

    def __init__(self, host: SupervisorHost, request: int, limits: Limits, family: Family) -> None:
        self._host, self._request, self._limits = host, request, limits
        self._family = family
        self._processes: list[WatchedProcess] = []
        self._released_cpu: float | None = None
        """Processor time in seconds of all released processes; None if unknown."""
        self._next_measure = 0.0
        self._held_before = self._measure_files({})
        """Bytes of files in the temporary folder that existed before the request, which do not
        count against its limit."""

    @property
    def pids(self) -> list[int]:
        """Pids of the watched processes, without processes whose pid is not known yet."""
        return [process.pid for process in self._processes if process.pid]

    @property
    def cpu(self) -> float | None:
        """Processor time in seconds that the processes have used so far; None if unknown."""
        known = [self._released_cpu, *(process.cpu for process in self._processes)]
        measured = [seconds for seconds in known if seconds is not None]
        return round(sum(measured), 3) if measured else None

    def add(self, launched: LaunchedProcess, stage: Stage, seconds: float) -> WatchedProcess:
        """Watch a new process and forward its output to the server; return its state.

        The time limit ``seconds`` of its first stage starts now, or for a fresh interpreter once it
        has imported torch.
        """
        channels, budget = launched.channels, OutputBudget()
        captures = [
            OutputCapture(channels.stdout, self._request, "stdout", budget, self._host.send),
            OutputCapture(channels.stderr, self._request, "stderr", budget, self._host.send),
        ]
        for capture in captures:
            self._watch_capture(capture)
        if not launched.begun:
            stage, seconds = "start", _START_SECONDS
        now = time.monotonic()
        reports = LineReader(channels.reports)
        process = WatchedProcess(
            launched.pid, reports, captures, channels.box, stage, seconds, now, now + seconds
        )
        self._processes.append(process)
        return process

    def _watch_capture(self, capture: OutputCapture) -> None:
        def read() -> None:
            if not capture.read():
                self._host.unwatch(capture.descriptor)

        self._host.watch(capture.descriptor, read)

    def release(self, process: WatchedProcess) -> None:
        """Forward the remaining output of a process, close its descriptors and stop watching it."""
        process.measure_processor_time()
        self._processes.remove(process)
        if process.cpu is not None:
            self._released_cpu = (self._released_cpu or 0.0) + process.cpu
        for capture in process.captures:
            capture.drain()
            self._host.close(capture.descriptor)
        process.captures = []
        self._host.close(process.reports.descriptor)
        os.close(process.box)

    # -- reports of a process -----------------------------------------------------------------

    def begin_stage(self, process: WatchedProcess, begun: StageBegun, most: float) -> None:
        """Start the time limit of the stage that a process has reported: ``begun.seconds``, but at
        most ``most``.

        Only the first report of a stage counts, as user code may forge reports.
        """
        is_next = _STAGES.index(begun.stage) > _STAGES.index(process.stage)
        if process.cause is None and is_next:
            process.enter_stage(begun.stage, min(most, max(begun.seconds, 0.0)))

    def reports_too_much(self, process: WatchedProcess, line: bytes) -> bool:
        """Count the bytes of a message, and end the process if it has sent too many in total.

        Return whether it has.
        """
        process.reported += len(line)
        if process.reported <= _MOST_REPORTED:
            return False
        if process.cause is None:
            self.interrupt(process, "talk")
        return True

    # -- limits -------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float:
        """Return the next time at which ``tick`` must act, in ``time.monotonic``."""
        times = [min(process.deadline, process.kill_at) for process in self._limited_processes()]
        return min([self._next_measure, *times])

    def tick(self, now: float) -> None:
        """Interrupt processes that exceed their limits at time ``now``; kill processes that did not
        end after an interruption."""
        for process in self._limited_processes():
            if process.cause is None and now >= process.deadline:
                if not self._prolong_stage(process):
                    self.interrupt(process, process.late)
            elif process.cause is not None and now >= process.kill_at:
                # User code may have sent a false pid for a forked process.
                named = process.pid if process.kills < _MOST_KILLS else 0
                pid = named or self._family.find_parent(process)
                if pid:
                    processes.kill_trees([pid])
                process.kill_at, process.kills = now + 1.0, process.kills + 1
        if now >= self._next_measure:
            self._next_measure = now + _MEASURE_SECONDS
            self._measure_all(now)
            for process in self._processes:
                for capture in process.captures:
                    capture.flush()

    def _prolong_stage(self, process: WatchedProcess) -> bool:
        """Postpone the deadline of a process by the time that it waited for a processor in the
        current stage.

        The deadline is postponed at most by the factor ``stretch`` in the limits of the request.
        Return whether the process has more time now.
        """
        if self._limits.stretch <= 1 or process.late != "timeout":
            return False
        waited = (process.measure_processor_time().waited or 0.0) - process.waited_before
        seconds = min(process.seconds + waited, process.seconds * self._limits.stretch)
        before, process.deadline = process.deadline, process.started + seconds
        if process.deadline - before >= _LEAST_PROLONGED:
            return True
        process.deadline = before
        return False

    def interrupt(self, process: WatchedProcess, cause: Cause) -> None:
        """Signal a process to report its stack, and schedule its kill; ``cause`` is the limit that
        it exceeded."""
        late = cause == "timeout"
        waited = process.measure_processor_time().waited if late else None
        process.waited = waited - process.waited_before if waited is not None else None
        seconds = process.late_answer_seconds if late else process.answer_seconds
        process.cause, process.kill_at = cause, time.monotonic() + seconds
        process.deadline = float("inf")
        if process.pid:
            processes.interrupt_process(process.pid, late=late)

    def _limited_processes(self) -> list[WatchedProcess]:
        """Return the processes to check for limits: all with a deadline, and all that were
        interrupted and will be killed."""
        return [
            process
            for process in self._processes
            if process.is_timed or process.cause is not None or process.late != "timeout"
        ]

    def _measure_all(self, now: float) -> None:
        seen = processes.read_processes()
        self._host.kill_strangers(seen.parents)
        source = self._family.source
        if source in seen.stopped:
            processes.kill_trees([source])
        limits, shared = self._limits, seen.resident(os.getpid())
        full = self._measure_files(seen.parents) > limits.memory * MIB + self._held_before
        for process in self._processes:
            process.pid = process.pid or self._find_stopped(process, seen)
            if not process.pid:
                continue
            process.measure_processor_time()
            if process.cause is not None:
                continue
            if process.pid in seen.stopped:
                self._kill(process, "stopped", now)
            elif full:
                self.interrupt(process, "files")
            else:
                self._measure_process(process, seen, shared, now)

    def _measure_process(
        self, process: WatchedProcess, seen: processes.ProcessTable, shared: int, now: float
    ) -> None:
        """Interrupt a process with too many descendants or too much memory.

        ``seen`` is the current process table. Memory inherited by fork, ``shared`` bytes, does not
        count.
        """
        children = self._family.count_children(process)
        used = processes.measure_usage(process.pid, seen)
        memory = self._limits.memory * MIB * MEMORY_SLACK * (1 + children)
        if used.processes > self._limits.processes + children:
            self._kill(process, "processes", now)
        elif used.beyond(shared) > memory:
            self.interrupt(process, "memory")

    def _kill(self, process: WatchedProcess, cause: Cause, now: float) -> None:
        process.cause, process.kill_at = cause, now + 1.0
        processes.kill_trees([process.pid])

    def _find_stopped(self, process: WatchedProcess, seen: processes.ProcessTable) -> int:
        """Return the pid of a forked process that a signal stopped before the process could report
        its pid; 0 if there is none."""
        parent, known = self._family.find_parent(process), set(self.pids)
        forks = (pid for pid in seen.stopped - known if seen.parents.get(pid) == parent)
        return next(forks, 0)

    def _measure_files(self, parents: dict[int, int]) -> int:
        """Return the bytes of the files in the temporary folder, and of deleted files that
        processes still have open."""
        pids = [os.getpid()]  # include this process, which may have inherited some of these files
        for pid in self.pids:
            pids += [pid, *processes.find_descendants(pid, parents)]
        folder = self._host.scratch
        return descriptors.held_by_files(folder) + processes.held_by_removed_files(pids, folder)


def was_ended_outside(code: int | None, process: WatchedProcess) -> bool:
    """Whether something other than the engine or the process itself killed a process, such as the
    kernel when memory runs out."""
    return process.cause == "stopped" or (process.cause is None and processes.was_killed(code))


def explain_end(code: int | None, process: WatchedProcess, limits: Limits) -> str:
    """Return a clause for the user on why a process ended, such as that it exceeded its time limit.

    ``code`` is its exit code, negative for a signal and None if unknown.
    """
    seconds = round(process.seconds, 1)
    words: dict[Cause, str] = {
        "timeout": f"it did not end within {seconds:g} seconds",
        "memory": f"it used more than {limits.memory} MiB of memory",
        "talk": f"its results are larger than {_MOST_REPORTED // MIB} MiB",
        "stopped": "it was stopped by a signal",
        "files": f"files of more than {limits.memory} MiB were written",
        "processes": f"it started more than {limits.processes} processes",
    }
    if process.cause == "timeout" and process.stage == "start":
        return f"torch was not imported within {process.seconds:g} seconds"
    if process.cause is not None and process.cause in words:
        return words[process.cause]
    closed = "closed or used up the file descriptors that fullgraph receives results through"
    if code == run.LOST:
        return f"the process exited with status {code}, which usually means that its code {closed}"
    if process.cause == "lost" and processes.was_killed(code):
        return f"it {closed}"
    if code == run.BROKEN:
        return (
            "fullgraph's own code failed in the process, perhaps because the file replaced "
            "something that fullgraph uses"
        )
    end = processes.describe_exit(code)
    if process.stage == "start":
        return f"the process {end} before torch was imported; see the log of the engine"
    return f"the process {end}"
