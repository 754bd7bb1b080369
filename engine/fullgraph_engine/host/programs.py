"""Processes that run programs: started once for all requests that want the same run, and kept."""

from __future__ import annotations

import os
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
from . import blackbox, frames, shortage, wire
from .lines import LineReader
from .output import Budget, Capture
from .process_backends import Launched, ProcessBackend, processes
from .process_backends.limits import MEMORY_SLACK, MIB
from .wire import Begun, ProgramDone, ProgramOrder, ProgramShows

_START = 120.0
"""Maximum seconds to start a process and import torch in it."""
_REPORTING = 6.0
"""Maximum seconds for the last report of a program after it was interrupted."""
_WATCH = 0.5
_MOST_KEPT = 8


class ProgramHost(Protocol):
    """The part of ``services.Services`` that a program's process uses."""

    scratch: str
    backend: ProcessBackend

    def send(self, event: Event) -> None: ...

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None: ...

    def unwatch(self, descriptor: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    def kill_strangers(self, parents: dict[int, int]) -> None: ...

    def clean_up(self, ended: Sequence[int], scratch: str) -> None: ...


@dataclass(frozen=True)
class ProgramKey:
    """Everything a run depends on, except the files it reads."""

    path: str
    text: str
    arguments: tuple[str, ...]
    backend: str
    seconds: float
    memory: int
    cwd: str
    roots: tuple[str, ...]
    open_files: tuple[OpenFile, ...]
    fake: bool = False
    uncompiled: bool = False

    @classmethod
    def for_request(cls, request: Analyze, path: str, text: str, *, fake: bool) -> ProgramKey:
        """The key of a program's run for a request about it or about a file that it imports."""
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
            fake=fake,
            uncompiled=asked.uncompiled,
        )


class ProgramProcess:
    """One run of a program. ``shown`` has everything that it reported, in order."""

    def __init__(self, key: ProgramKey, request: Analyze, host: ProgramHost) -> None:
        self.key, self.request = key, request
        self._host = host
        self.shown: list[ProgramShows] = []
        self.done: ProgramDone | None = None
        self.files: list[FileState] = []
        self.was_started = False
        """True once a process was started for it."""
        self.is_over = False
        self.listeners: list[Callable[[ProgramShows | None], None]] = []
        """Functions called with each new report, and with None at the end."""
        self._scratch = ""
        self._began = time.time_ns()
        self._launched: Launched | None = None
        self._reports: LineReader | None = None
        self._captures: list[Capture] = []
        self._pid = 0
        self._deadline = self._kill_at = float("inf")
        self._next_watch = 0.0
        self._cause = ""

    def begin(self) -> None:
        """Start it; without room for a process it has ended at once."""
        try:
            self._scratch = tempfile.mkdtemp(dir=self._host.scratch)
            key = self.key
            order = ProgramOrder(self.request, key.path, key.text, self._scratch, key.fake)
            made = self._host.backend.perform(order, self)
        except OSError as error:
            words = f"The program was not run: {shortage.words(error)}.\n"
            self._host.send(Log(self.request.request, "engine", words))
            self._finish()
            return
        self._launched, self._pid = made, made.pid
        self.was_started = True
        seconds = self.key.seconds if made.begun else _START
        self._deadline = time.monotonic() + seconds
        budget, number, ours = Budget(), self.request.request, made.channels
        self._reports = LineReader(ours.reports)
        self._host.watch(ours.reports, self._read)
        out = Capture(ours.stdout, number, "stdout", budget, self._host.send)
        err = Capture(ours.stderr, number, "stderr", budget, self._host.send)
        self._captures = [out, err]
        for capture in self._captures:
            self._watch(capture)

    def _watch(self, capture: Capture) -> None:
        def ready() -> None:
            if not capture.read():
                self._host.unwatch(capture.descriptor)

        self._host.watch(capture.descriptor, ready)

    @property
    def holds(self) -> bool:
        """Whether a run would read the same files again."""
        return all(file.is_unchanged() for file in self.files)

    @property
    def is_whole(self) -> bool:
        """Whether the run reported everything, and would do so again."""
        return self.done is not None and self.done.how not in ("time", "killed")

    # -- the process ----------------------------------------------------------------------------

    def became(self, pid: int) -> None:
        """The process is known from the beginning."""

    def _read(self) -> None:
        if self._reports is None:
            return
        for line in self._reports.read():
            self._take(line)
        if self._reports is not None and self._reports.ended:
            self._host.unwatch(self._reports.descriptor)

    def _take(self, line: bytes) -> None:
        message = wire.received(line)
        if isinstance(message, Begun):
            self._deadline = time.monotonic() + self.key.seconds
        elif isinstance(message, ProgramDone):
            self.done = message
        elif isinstance(message, FilesRead):
            self.files += map(self._as_seen_here, message.unpack_files())
        elif isinstance(message, Log):
            self._host.send(message)
        elif isinstance(message, ProgramShows):
            self._show(message)

    def _as_seen_here(self, file: FileState) -> FileState:
        """The state of a file that the program read, outside of the program's private view, where
        folders that it wrote to look changed. A file that was changed during the run is recorded in
        a state that it does not have, so that the run does not count as current."""
        if file.modified == OPEN:
            return file
        now = file_state(file.path)
        return now if now.modified < self._began else FileState(file.path, 0, 0)

    def _show(self, message: ProgramShows) -> None:
        self.shown.append(message)
        for listener in list(self.listeners):
            listener(message)

    def ended(self, code: int | None) -> None:
        """The process has ended."""
        if self._reports is not None and self._launched is not None:
            for line in self._reports.drain():
                self._take(line)
            words = blackbox.read(self._launched.channels.box, self.key.path)
            if self.done is None:
                self._report_end(words, code)
        self._finish()

    def _report_end(self, words: blackbox.LastWords, code: int | None) -> None:
        """The finding for a program whose process died before it could report its end."""
        lines = self.key.text.split("\n")
        here = frames.innermost(words.stack, self.key.path)
        where = Range(Position(0, 0), Position(0, len(lines[0].encode())))
        if here is not None:
            where = frames.range_of(here, lines)
        cause = self._cause or words.fatal or f"the process {processes.ending(code)}"
        finding_code = "trace/timeout" if "seconds" in self._cause else "trace/crashed"
        finding = Finding(
            code=finding_code,
            message=f"The program stopped here: {cause}",
            range=where,
            stack=words.stack,
            mode="real",
            notes=("What was found until then is kept.",) if self.shown else (),
            identity=f"{finding_code}@{place_words(where)}",
        )
        event = encode(FindingFound(self.request.request, finding)).decode()
        self._show(ProgramShows(self.key.path, event))

    def _finish(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        pid, self._pid = self._pid, 0
        for capture in self._captures:
            capture.drain()
            self._host.close(capture.descriptor)
        self._captures = []
        if self._reports is not None:
            self._host.close(self._reports.descriptor)
            self._reports = None
        if self._launched is not None:
            os.close(self._launched.channels.box)
            self._launched = None
        if self._scratch:
            self._host.clean_up([pid] if pid else [], self._scratch)
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener(None)

    # -- limits ---------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When it may next be over a limit, in ``time.monotonic``."""
        return min(self._deadline, self._kill_at, self._next_watch)

    def tick(self, now: float) -> None:
        """Interrupt a program that exceeds its limits, then kill it."""
        if not self._pid:
            return
        if now >= self._kill_at:
            processes.kill([self._pid])
            self._kill_at = now + 1.0
        elif now >= self._deadline:
            seconds = f"{self.key.seconds:g} seconds"
            self._interrupt(f"it did not end within {seconds}", now, late=True)
        if now >= self._next_watch:
            self._next_watch = now + _WATCH
            for capture in self._captures:
                capture.flush()
            self._measure(now)

    def _interrupt(self, cause: str, now: float, *, late: bool) -> None:
        self._cause = cause
        self._deadline, self._kill_at = float("inf"), now + _REPORTING
        processes.interrupt(self._pid, late=late)

    def _measure(self, now: float) -> None:
        seen = processes.snapshot()
        self._host.kill_strangers(seen.parents)
        if self._cause:
            return
        limits, shared = self.request.limits, seen.resident(os.getpid())
        used = processes.usage(self._pid, seen)
        if used.beyond(shared) > limits.memory * MIB * MEMORY_SLACK:
            self._interrupt(f"it used more than {limits.memory} MiB of memory", now, late=False)
        elif used.processes > limits.processes:
            self._cause = f"it started more than {limits.processes} processes"
            self._kill_at = now

    def kill(self) -> None:
        """End the process and discard its later reports."""
        if self._pid:
            processes.end(self._pid)
        self._finish()


class ProgramProcesses:
    """A cache of program runs: the running ones and the last finished ones, by their keys."""

    def __init__(self) -> None:
        self._kept: OrderedDict[ProgramKey, ProgramProcess] = OrderedDict()

    def find(self, key: ProgramKey, request: Analyze, host: ProgramHost) -> ProgramProcess:
        """Return a program's run: one in progress, a finished one if its files are unchanged, or a
        new one, which the caller starts."""
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
