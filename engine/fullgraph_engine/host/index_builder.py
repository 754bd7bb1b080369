"""Has the operator index of this torch made, in processes that keep nothing else waiting.

A first process reads the binding YAML while this one imports torch, and a second, which has torch
imported, adds what only the running torch knows. Where nothing can be forked the second does both.
Where an earlier engine has left the result, ``boot`` announces that and none of this happens.
"""

from __future__ import annotations

import os
import select
import stat
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from .. import protocol
from ..protocol import IndexWritten, Log
from . import wire
from .lines import Line, LineReader
from .pipeline import Operators, Pipeline
from .process_backends import descriptors, limits, processes
from .process_backends.fork_server import forked
from .services import Services
from .wire import Survey

_MOST_SECONDS = 60
"""After these a process that makes an index ends itself."""
_PATIENCE = 2.0
"""Seconds for which the second stage waits for the first traces to end."""
_SOON = 0.02
"""Seconds in which requests that waited for the host to be ready have arrived."""
_WRITING = 1000
"""Milliseconds that one write to the server may take."""
_NICE = {"read": 5, "survey": 10}
_STATIC = "static.index"
"""What the YAML says, in the scratch folder of the engine."""


class Inventory:
    """The index of one engine. Until ``begin`` is given something to make it with, nothing."""

    def __init__(self, write: int, scratch: str) -> None:
        self._yaml: str | None = None
        self._write = write
        self._static = Path(scratch, _STATIC)
        self._scratch = Path(scratch)
        self._host: Services | None = None
        self._reader: tuple[int, LineReader] | None = None
        """The process that reads the YAML, and what it says."""
        self._survey: LineReader | None = None
        self._baton = -1
        self._due: float | None = None

    # -- before torch is imported -------------------------------------------------------------

    def begin(self, operators: Operators | None, yaml: str, *, fork: bool) -> None:
        """Have the YAML read while torch is imported, where a process may be forked for it."""
        if operators is None:
            return
        try:
            self._yaml = yaml
            if fork:
                self._fork_reader(operators)
        except BrokenPipeError:
            raise
        except Exception as error:
            os.write(self._write, protocol.encode(_failed(error)))

    def _fork_reader(self, operators: Operators) -> None:
        # Whoever holds the one byte in it may write to the server.
        self._baton, baton = os.pipe()
        os.write(baton, b"!")
        os.close(baton)

        def read(report: int) -> None:
            _work("read", report, lambda: self._read(operators, report))

        pid, report = forked(read)
        self._reader = (pid, LineReader(report))

    def _read(self, operators: Operators, report: int) -> None:
        operators.write_static_index(self._static)
        event = IndexWritten(str(self._static), False)
        # Importing torch keeps the host busy for seconds, so this process tells the server.
        # It must not cut into a line: what fits into a pipe's buffer is written in one piece.
        fits = len(protocol.encode(event)) <= select.PIPE_BUF
        pipe = stat.S_ISFIFO(os.fstat(self._write).st_mode)
        direct = fits and pipe and os.read(self._baton, 1)
        wire.report(self._write if direct else report, event)

    def settle(self) -> None:
        """From here on only the host writes to the server."""
        if self._baton < 0:
            return
        taken = not os.read(self._baton, 1)
        os.close(self._baton)
        self._baton = -1
        if taken and self._reader is not None:
            # It is writing, or has done so and ends.
            descriptors.readable(self._reader[1].descriptor, _WRITING)

    def abandon(self) -> None:
        """The engine ends before its loop begins."""
        if self._reader is not None:
            processes.kill([self._reader[0]])

    def opened(self) -> set[int]:
        """Descriptors that are not for other processes."""
        return set() if self._reader is None else {self._reader[1].descriptor}

    # -- beside the loop ----------------------------------------------------------------------

    def attend(self, host: Services) -> None:
        """The loop begins; the second stage is due once the first has ended."""
        self._host = host
        if self._yaml is None:
            return
        if self._reader is None:
            self._due = time.monotonic() + _SOON
            return
        pid, said = self._reader
        host.watch(said.descriptor, lambda: self._heard(said))
        host.adopt(pid, lambda code: self._first_ended(said))

    def due(self, busy: bool) -> float | None:
        """Seconds until :meth:`turn` has something to do."""
        if self._due is None:
            return None
        wait = _PATIENCE if busy else 0.0
        return max(self._due + wait - time.monotonic(), 0.0)

    def turn(self, busy: bool) -> None:
        """Start the second stage when no trace would wait for it."""
        if self.due(busy) != 0.0 or self._host is None or self._yaml is None:
            return
        self._due = None
        order = Survey(self._yaml, str(self._scratch), read=self._reader is None)
        try:
            launched = self._host.backend.perform(order, self)
        except OSError as error:
            self._host.send(_failed(error))
            return
        said = self._survey = self._host.reports_of(launched, lambda: self._heard(said))

    def became(self, pid: int) -> None:
        """The second stage was known from the beginning."""

    def ended(self, code: int | None) -> None:
        """The second stage has."""
        if self._survey is not None:
            self._finish(self._survey)

    def _first_ended(self, said: LineReader) -> None:
        self._finish(said)
        self._due = time.monotonic() + _SOON

    def _heard(self, said: LineReader) -> None:
        self._forward(said.read())
        if said.ended and self._host is not None:
            self._host.unwatch(said.descriptor)

    def _finish(self, said: LineReader) -> None:
        self._forward(said.drain())
        if self._host is not None:
            self._host.close(said.descriptor)

    def _forward(self, lines: list[Line]) -> None:
        for line in lines:
            if self._host is not None and isinstance(wire.received(line), (IndexWritten, Log)):
                self._host.forward(line + b"\n")


def survey(order: Survey, report: int, pipeline: Pipeline) -> None:
    """In a process that has torch imported and ends with this: complete the index."""

    def work() -> None:
        operators = pipeline.operators(order.yaml)
        if operators is None:
            return
        static = Path(order.scratch, _STATIC)
        if order.read:
            operators.write_static_index(static)
            wire.report(report, IndexWritten(str(static), False))

        def say(sentence: str) -> None:
            wire.report(report, Log(0, "engine", sentence + "\n"))

        found = static if static.exists() else None
        path = operators.write_complete_index(found, Path(order.scratch), say)
        wire.report(report, IndexWritten(str(path), True))

    _work("survey", report, work)


def _work(stage: str, report: int, work: Callable[[], None]) -> None:
    """Do it behind all others, whatever happens; trouble becomes one line of the log."""
    limits.give_way(_NICE[stage])
    limits.end_after(_MOST_SECONDS)
    descriptors.detach()
    try:
        work()
    except BaseException as error:
        wire.report(report, _failed(error))


def _failed(error: BaseException) -> Log:
    words = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
    return Log(0, "engine", f"The operator index of this torch is incomplete: {words}\n")
