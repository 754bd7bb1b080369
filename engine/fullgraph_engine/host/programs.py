"""Cache of program runs: requests about several files of the same program share one run of it."""

from __future__ import annotations

import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..protocol import (
    Analyze,
    Event,
    FilesRead,
    Finding,
    FindingFound,
    Log,
    OpenFile,
    Position,
    Range,
    encode,
    place_words,
)
from ..protocol.files import OPEN, FileState, file_state
from ..protocol.regions import Lack
from . import blackbox, frames, shortage, wire
from .process_backends import ProcessBackend, processes
from .supervision import SingleProcess, Supervisor, SupervisorHost, WatchedProcess, explain_end
from .wire import ProgramDone, ProgramOrder, ProgramShows, StageBegun

_REPORTING = 6.0
"""Maximum seconds in which a program's process, after its interruption, may send its last
results."""
_MOST_KEPT = 8


class ProgramHost(SupervisorHost, Protocol):
    """The operations of the event loop that a run of a program uses."""

    backend: ProcessBackend

    def send(self, event: Event) -> None: ...

    def clean_up(self, ended: Sequence[int], scratch: str) -> None: ...


@dataclass(frozen=True)
class ProgramKey:
    """Everything that a run of a program depends on, except the files that it reads.

    Requests with equal keys share a run.
    """

    path: str
    text: str
    arguments: tuple[str, ...]
    backend: str
    seconds: float
    memory: int
    cwd: str
    roots: tuple[str, ...]
    open_files: tuple[OpenFile, ...]
    lacks: Lack = ""
    """Resource missing on this machine, such as a GPU, so that the program runs on fake tensors;
    empty for real tensors."""
    uncompiled: bool = False
    further_calls: int = 0

    @classmethod
    def for_request(cls, request: Analyze, path: str, text: str, lacks: Lack) -> ProgramKey:
        """Return the key under which the run of the program ``path`` with the text ``text`` is
        cached.

        ``request`` may be about the program itself or about a file that it imports. ``lacks`` is a
        missing resource because of which fake tensors are used.
        """
        files = {one.path: one for one in request.open_files}
        files[request.path] = OpenFile(request.path, request.text)
        files.pop(path, None)
        changed = tuple(one for _, one in sorted(files.items()) if not _is_on_disk(one))
        asked = request.program
        return cls(
            path=path,
            text=text,
            arguments=asked.arguments,
            backend=asked.backend,
            seconds=asked.seconds,
            memory=request.limits.memory,
            cwd=request.cwd,
            roots=request.roots,
            open_files=changed,
            lacks=lacks,
            uncompiled=asked.uncompiled,
            further_calls=asked.further_calls,
        )


class ProgramProcess:
    """One run of a user's program, which observes what the program compiles.

    ``shown`` has the results sent so far, in order.
    """

    def __init__(self, key: ProgramKey, request: Analyze, host: ProgramHost) -> None:
        self.key, self.request = key, request
        self._host = host
        self.shown: list[ProgramShows] = []
        self.done: ProgramDone | None = None
        self.files: list[FileState] = []
        self.was_started = False
        """True if the program's process was started; False if the system lacked resources."""
        self.is_over = False
        self.listeners: list[Callable[[ProgramShows | None], None]] = []
        """Functions to call with each new result, and with None at the end of the run."""
        self._scratch = ""
        self._began = time.time_ns()
        self._supervisor = Supervisor(host, request.request, request.limits, SingleProcess())
        self._watched: WatchedProcess | None = None

    def begin(self) -> None:
        """Start the program's process.

        If the system lacks resources, listeners are informed as if it had ended.
        """
        try:
            self._scratch = tempfile.mkdtemp(dir=self._host.scratch)
            key = self.key
            order = ProgramOrder(self.request, key.path, key.text, self._scratch, key.lacks)
            made = self._host.backend.perform_order(order, self)
        except OSError as error:
            words = f"The program was not run: {shortage.shortage_words(error)}.\n"
            self._host.send(Log(self.request.request, "engine", words))
            self._finish()
            return
        self.was_started = True
        self._watched = self._supervisor.add(made, "run", key.seconds)
        self._watched.answer_seconds = self._watched.late_answer_seconds = _REPORTING
        self._host.watch(self._watched.reports.descriptor, self._read)

    @property
    def holds(self) -> bool:
        """Whether the results are still valid: the files that the program read are unchanged."""
        return all(file.is_unchanged() for file in self.files)

    @property
    def is_whole(self) -> bool:
        """Whether all results have arrived, and neither a time limit nor a kill ended the
        program."""
        return self.done is not None and self.done.how not in ("time", "killed")

    # -- the process ----------------------------------------------------------------------------

    def set_pid(self, pid: int) -> None:
        """Do nothing: the pid is already known from the start of the process."""

    def _read(self) -> None:
        watched = self._watched
        if watched is None:
            return
        for line in watched.reports.read():
            self._handle_line(watched, line)
        if self._watched is not None and watched.reports.ended:
            self._host.unwatch(watched.reports.descriptor)

    def _handle_line(self, watched: WatchedProcess, line: bytes) -> None:
        if self._supervisor.reports_too_much(watched, line):
            return
        message = wire.parse_message(line)
        if isinstance(message, StageBegun):
            self._supervisor.begin_stage(watched, message, self.key.seconds)
        elif isinstance(message, ProgramDone):
            self.done = message
        elif isinstance(message, FilesRead):
            self.files += map(self._as_seen_here, message.unpack_files())
        elif isinstance(message, Log):
            self._host.send(message)
        elif isinstance(message, ProgramShows):
            self._show(message)

    def _as_seen_here(self, file: FileState) -> FileState:
        """Return the current state (time and size) of a file that the program read, outside the
        program's sandbox.

        Inside the sandbox, folders that the program wrote to look changed. If the file really
        changed during the run, return a state that no file has, so that the results do not count as
        valid.
        """
        if file.modified == OPEN:
            return file
        now = file_state(file.path)
        return now if now.modified < self._began else FileState(file.path, 0, 0)

    def _show(self, message: ProgramShows) -> None:
        self.shown.append(message)
        for listener in list(self.listeners):
            listener(message)

    def handle_end(self, code: int | None) -> None:
        """Handle the end of the process with exit code ``code``: inform all listeners."""
        watched = self._watched
        if watched is not None:
            for line in watched.reports.drain():
                self._handle_line(watched, line)
            if self.done is None:
                self._report_end(watched, code)
        self._finish()

    def _report_end(self, watched: WatchedProcess, code: int | None) -> None:
        """Report that the program's process was killed or crashed, if it could not report its end
        itself.

        ``code`` is its exit code.
        """
        words = blackbox.read_last_words(watched.box, self.key.path)
        lines = self.key.text.split("\n")
        here = frames.innermost_frame(words.stack, self.key.path)
        where = Range(Position(0, 0), Position(0, len(lines[0].encode())))
        if here is not None:
            where = frames.range_of(here, lines)
        cause = explain_end(code, watched, self.request.limits)
        if watched.cause is None and words.fatal:
            cause = words.fatal
        finding_code = "trace/timeout" if watched.cause == "timeout" else "trace/crashed"
        finding = Finding(
            code=finding_code,
            message=f"The program stopped here: {cause}",
            range=where,
            stack=words.stack,
            mode="real",
            notes=("The findings from before this point are kept.",) if self.shown else (),
            identity=f"{finding_code}@{place_words(where)}",
        )
        event = encode(FindingFound(self.request.request, finding)).decode()
        self._show(ProgramShows(self.key.path, event))

    def _finish(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        watched, self._watched = self._watched, None
        pid = watched.pid if watched is not None else 0
        if watched is not None:
            self._supervisor.release(watched)
        if self._scratch:
            self._host.clean_up([pid] if pid else [], self._scratch)
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener(None)

    # -- limits ---------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Return the next time, in ``time.monotonic``, at which a limit may be exceeded."""
        return self._supervisor.next_deadline

    def tick(self, now: float) -> None:
        """Interrupt the program if it exceeds a limit at time ``now``; kill it if it does not end
        after an interruption."""
        self._supervisor.tick(now)

    def kill(self) -> None:
        """Kill the process, and ignore results that still arrive."""
        if self._watched is not None and self._watched.pid:
            processes.kill_process(self._watched.pid)
        self._finish()


class ProgramProcesses:
    """A cache of runs of user programs: the running ones and the most recently finished ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[ProgramKey, ProgramProcess] = OrderedDict()

    def find(self, key: ProgramKey, request: Analyze, host: ProgramHost) -> ProgramProcess:
        """Return the run for ``key``: one in progress, or a finished one whose files are unchanged.

        If there is neither, return a new one, which the caller has to start.
        """
        known = self._kept.get(key)
        if known is not None and (not known.is_over or (known.is_whole and known.holds)):
            self._kept.move_to_end(key)
            return known
        fresh = self._kept[key] = ProgramProcess(key, request, host)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            oldest = next(iter(self._kept.values()))
            if not oldest.is_over:
                break
            del self._kept[oldest.key]
        return fresh


def _is_on_disk(file: OpenFile) -> bool:
    try:
        with open(file.path, encoding="utf-8", newline="") as found:  # noqa: PTH123
            return found.read() == file.text
    except (OSError, ValueError):
        return False
