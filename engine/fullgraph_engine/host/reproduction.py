"""Handle a ``Reproduce`` request: write a small script that shows a finding.

A run writes programs that may reproduce the finding. Then a reducer, a process without user code,
minimizes one of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..protocol import (
    Analyzed,
    Failed,
    Log,
    Reproduce,
    Reproduced,
    ReproFound,
    ReproProgress,
    TargetDone,
    TargetsFound,
)
from ..protocol.repro import DATA
from . import wire
from .analysis import Analysis
from .listener import EventInterceptor
from .performer import Performer
from .process_backends import descriptors, processes
from .process_backends.limits import MIB
from .services import Services
from .wire import CandidatesMade, ReductionOrder

_GRACE, _COMPILING = 5.0, 120.0
"""Maximum seconds by which a reducer (the process that minimizes programs) may exceed its own time
limit before it is assumed to hang. The first is for Dynamo alone, the second for a compiler
backend, whose startup does not count against the reducer's limit."""
_TOO_LATE = (
    "The time limit was reached before the target was run again; raise the limit, or write a "
    "probe with smaller inputs."
)
_WATCH = 0.5


class ReproSession:
    """The state of one ``Reproduce`` request, which writes a small script that shows a finding.

    The event loop treats it like an ``Analysis``.
    """

    def __init__(self, request: Reproduce, host: Services, scratch: str) -> None:
        self.request, self.scratch = request, scratch
        self._host = host
        self._began = time.monotonic()
        self._trouble = ""
        """Reason why the run wrote no programs, such as a crash; empty while it is running or after
        a success."""
        self._made: CandidatesMade | None = None
        self._reducer = Performer(host, self._from_reducer, self._reducer_ended)
        self._deadline = self._began + request.seconds
        self._next_watch = 0.0
        self._last: ReproProgress | None = None
        self._found = False
        self._finished = False
        wanted = request.wanted
        analyze = replace(
            request.analyze,
            request=request.request,
            mode="real" if wanted.real or wanted.backend or wanted.data else request.analyze.mode,
            parts=("candidates",),
            only=(wanted.target,),
            documents=(),
            nice=0,
            wanted=wanted,
        )
        # The run gets its own folder, because a process kept after the file's imports may still use
        # the folder when the request has ended.
        self._left = tempfile.mkdtemp(dir=host.scratch)
        self._analysis: Analysis | None = Analysis(
            analyze,
            EventInterceptor(host, self.handle_event),
            self._left,
            until=self._deadline,
        )

    def begin(self) -> None:
        """Start a trace of the target that writes programs which may reproduce the finding."""
        if self._analysis is not None:
            self._analysis.begin()

    # -- the run ------------------------------------------------------------------------------

    def handle_event(self, message: Any) -> None:
        """Handle an event of the run that writes programs, instead of sending it to the server."""
        if isinstance(message, CandidatesMade):
            # Several runs may report programs. Use the first that shows the finding.
            if self._made is None or (message.packed and not self._made.packed):
                self._made = message
        elif isinstance(message, Log):
            self._host.send(message)
        elif isinstance(message, TargetsFound):
            name = self.request.wanted.target
            if name not in {target.name for target in message.targets}:
                self._trouble = (
                    f"No repro can be made of {name}, because fullgraph sees it only in runs of a "
                    "program: move its code into a function with a probe comment, such as "
                    "`# fullgraph: x=f32[8, 16]`."
                )
        elif isinstance(message, TargetDone):
            report = message.report
            if report.status == "no-probe":
                self._trouble = (
                    f"fullgraph doesn't know the inputs of {report.name}; give it a probe comment."
                )
            elif report.error:
                self._trouble = f"{report.name} was not traced again: {report.error}"
        elif isinstance(message, Failed):
            self._analysis = None
            self._finish(message)
        elif isinstance(message, Analyzed) and not self._finished:
            self._analysis = None
            self._start_reducer()

    def _start_reducer(self) -> None:
        made = self._made
        if made is None or not made.packed:
            reason = made.reason if made is not None else self._trouble
            if made is None and time.monotonic() >= self._deadline:
                reason = _TOO_LATE
            self._end(
                reason
                or "The code was not traced again; `fullgraph check` on the file shows the error."
            )
            return
        with contextlib.suppress(OSError):  # most runs write no data
            Path(self._left, DATA).rename(Path(self.scratch, DATA))
        order = ReductionOrder(self.request, made.packed, self._began, self.scratch)
        try:
            self._reducer.begin(order)
        except OSError as error:
            self._end(f"The engine could not start a process: {error.strerror or error}.")
            return
        grace = _COMPILING if self.request.wanted.backend else _GRACE
        self._deadline = self._began + self.request.seconds + grace

    # -- the reducer --------------------------------------------------------------------------

    def _from_reducer(self, line: bytes) -> None:
        message = wire.parse_message(line)
        if isinstance(message, Reproduced):
            self._finish(message)
        elif isinstance(message, (ReproFound, ReproProgress, Log)):
            if isinstance(message, ReproProgress):
                self._last = message
            elif isinstance(message, ReproFound):
                self._found = True
                self._hand_over(message.data)
            self._host.forward(line + b"\n")

    def _hand_over(self, names: tuple[str, ...]) -> None:
        """Link or copy files with tensor contents, which a script loads, from the temporary folder
        to the folder that the request names."""
        if not self.request.folder:
            return
        for name in names:
            path, given = Path(self.scratch, DATA, name), Path(self.request.folder, name)
            with contextlib.suppress(OSError):  # the script reports a missing file
                try:
                    given.hardlink_to(path)
                except FileExistsError:
                    continue
                except OSError:
                    shutil.copyfile(path, given)

    def _reducer_ended(self) -> None:
        words = "it took too long" if self._deadline == 0.0 else "it crashed"
        rest = (
            "The best result so far is kept." if self._found else "No script was found before that."
        )
        self._end(f"Minimization was stopped: {words}. {rest}")

    # -- interface to the event loop ----------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of processes that this request still has to start: 1 (the reducer, which minimizes
        a program) while a run writes programs, else 0."""
        return 1 if self._analysis is not None else 0

    def next_deadline(self) -> float:
        if self._analysis is not None:
            return min(self._analysis.next_deadline(), self._deadline)
        return min(self._deadline, self._next_watch)

    def tick(self, now: float) -> None:
        """End the request, or processes of it, if they exceed their time limits at time ``now``."""
        if self._analysis is not None:
            self._analysis.tick(now)
            if self._analysis is not None and now >= self._deadline:
                self._end(_TOO_LATE)
            return
        if now >= self._next_watch:
            self._next_watch = now + _WATCH
            self._measure()
        if now >= self._deadline and self._reducer.pid:
            self._deadline = 0.0
            self._reducer.kill()
            self._next_watch = now + _WATCH

    def _measure(self) -> None:
        if not self._reducer.pid:
            return
        seen = processes.read_processes()
        self._host.kill_strangers(seen.parents)
        limits, shared = self.request.analyze.limits, seen.resident(os.getpid())
        used = processes.measure_usage(self._reducer.pid, seen)
        jobs = max(self.request.analyze.jobs, 1)
        most = (limits.memory * jobs + 2048) * MIB
        many = used.processes > limits.processes + jobs
        full = descriptors.held_by_files(self.scratch) > most
        if many or full or used.beyond(shared) > most:
            self._reducer.kill()

    def cancel(self) -> None:
        """Cancel the request. Events that were already sent remain valid."""
        self._end("It was cancelled.", cancelled=True)

    # -- the end ------------------------------------------------------------------------------

    def _end(self, reason: str, *, cancelled: bool = False) -> None:
        tried = self._last.tried if self._last is not None else 0
        seconds = round(time.monotonic() - self._began, 2)
        number = self.request.request
        self._finish(Reproduced(number, seconds, tried, False, reason, cancelled))

    def _finish(self, last: Reproduced | Failed) -> None:
        if self._finished:
            return
        self._finished = True
        analysis, self._analysis = self._analysis, None
        if analysis is not None:
            analysis.cancel()
        self._reducer.close()
        self._host.send(last)
        self._reducer.kill()
        self._host.remove_request(self.request.request)
        self._host.clean_up([self._reducer.pid], self.scratch)
