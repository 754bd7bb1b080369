"""Build the index of the installed torch's operators in low-priority processes.

The first process reads the YAML file of PyTorch's Python bindings while the engine's main process
imports torch. The second process has torch imported and adds facts known only after that import.
Without forks the second process does both. If an earlier engine saved the index, the module
``boot`` reports that index to the server and this module does nothing.
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
from .pipeline import EnginePipeline, Operators
from .process_backends import descriptors, limits, processes
from .process_backends.fork_server import fork_worker
from .services import Services
from .wire import IndexOrder

_MOST_SECONDS = 60
"""Maximum seconds that a process which builds the index may run; it ends itself after that."""
_PATIENCE = 2.0
"""Maximum seconds that completing the operator index is delayed until the first traces have
ended."""
_SOON = 0.02
"""Number of seconds between the end of the first process that builds the operator index and the
start of the second, so that waiting requests are served first."""
_WRITING = 1000
"""Maximum milliseconds to wait for the process that reads the YAML file to finish its write to the
server."""
_NICE = {"read": 5, "survey": 10}
_STATIC = "static.index"
"""Name of the file, in the engine's temporary folder, with the index made from the YAML file
alone."""


class Inventory:
    """A builder of the operator index for one engine, in two processes.

    It does nothing if ``begin`` was called without operators.
    """

    def __init__(self, write: int, scratch: str) -> None:
        self._yaml: str | None = None
        self._write = write
        self._static = Path(scratch, _STATIC)
        self._scratch = Path(scratch)
        self._host: Services | None = None
        self._reader: tuple[int, LineReader] | None = None
        """Process that reads the YAML, and the reader of its messages; None before and after it."""
        self._survey: LineReader | None = None
        self._baton = -1
        self._due: float | None = None

    # -- before torch is imported -------------------------------------------------------------

    def begin(self, operators: Operators | None, yaml: str, *, fork: bool) -> None:
        """Start a process that reads the YAML file of PyTorch's bindings, while this process
        imports torch.

        ``operators`` builds the index; None to build none. ``yaml`` is a folder that contains
        PyYAML. Without ``fork``, the second process reads the file.
        """
        if operators is None:
            return
        try:
            self._yaml = yaml
            if fork:
                self._fork_reader(operators)
        except BrokenPipeError:
            raise
        except Exception as error:
            os.write(self._write, protocol.encode(_failure_log(error)))

    def _fork_reader(self, operators: Operators) -> None:
        # A process may write to the server only after it has read the pipe's single byte.
        self._baton, baton = os.pipe()
        os.write(baton, b"!")
        os.close(baton)

        def read(report: int) -> None:
            _work_quietly("read", report, lambda: self._read(operators, report))

        pid, report = fork_worker(read)
        self._reader = (pid, LineReader(report))

    def _read(self, operators: Operators, report: int) -> None:
        operators.write_static_index(self._static)
        event = IndexWritten(str(self._static), False)
        # Importing torch keeps the engine's main process busy for seconds, so this process notifies
        # the server. The event must fit into the buffer of a pipe to be written atomically between
        # lines.
        fits = len(protocol.encode(event)) <= select.PIPE_BUF
        pipe = stat.S_ISFIFO(os.fstat(self._write).st_mode)
        direct = fits and pipe and os.read(self._baton, 1)
        wire.write_message(self._write if direct else report, event)

    def take_over_writing(self) -> None:
        """Wait until the forked process, which builds the operator index, has finished writing to
        the server.

        After this call, only this process writes.
        """
        if self._baton < 0:
            return
        taken = not os.read(self._baton, 1)
        os.close(self._baton)
        self._baton = -1
        if taken and self._reader is not None:
            # The process is writing, or has written and is about to end.
            descriptors.is_readable(self._reader[1].descriptor, _WRITING)

    def abandon(self) -> None:
        """Kill the process that builds the operator index, because the engine ends before its event
        loop begins."""
        if self._reader is not None:
            processes.kill_trees([self._reader[0]])

    def open_descriptors(self) -> set[int]:
        """Return the descriptors of the index's processes that other forked processes must
        close."""
        return set() if self._reader is None else {self._reader[1].descriptor}

    # -- in the event loop -------------------------------------------------------------------

    def join_loop(self, host: Services) -> None:
        """Let the event loop of ``host`` watch the processes that build the operator index, and
        start the second after the first has ended."""
        self._host = host
        if self._yaml is None:
            return
        if self._reader is None:
            self._due = time.monotonic() + _SOON
            return
        pid, said = self._reader
        host.watch(said.descriptor, lambda: self._read_lines(said))
        host.watch_child(pid, lambda code: self._first_ended(said))

    def due(self, busy: bool) -> float | None:
        """Return the seconds until :meth:`turn` should be called; None if it need not be called.

        ``busy``: analyses are running.
        """
        if self._due is None:
            return None
        wait = _PATIENCE if busy else 0.0
        return max(self._due + wait - time.monotonic(), 0.0)

    def turn(self, busy: bool) -> None:
        """Start the process that completes the operator index, unless it would delay a trace now.

        ``busy``: analyses are running.
        """
        if self.due(busy) != 0.0 or self._host is None or self._yaml is None:
            return
        self._due = None
        order = IndexOrder(self._yaml, str(self._scratch), read=self._reader is None)
        try:
            launched = self._host.backend.perform_order(order, self)
        except OSError as error:
            self._host.send(_failure_log(error))
            return
        said = self._survey = self._host.watch_reports(launched, lambda: self._read_lines(said))

    def set_pid(self, pid: int) -> None:
        """Do nothing: the pid is already known from the start of the process."""

    def handle_end(self, code: int | None) -> None:
        """Close the channels of the second process, which completed the index, after its end."""
        if self._survey is not None:
            self._finish(self._survey)

    def _first_ended(self, said: LineReader) -> None:
        self._finish(said)
        self._due = time.monotonic() + _SOON

    def _read_lines(self, said: LineReader) -> None:
        self._forward(said.read())
        if said.ended and self._host is not None:
            self._host.unwatch(said.descriptor)

    def _finish(self, said: LineReader) -> None:
        self._forward(said.drain())
        if self._host is not None:
            self._host.close(said.descriptor)

    def _forward(self, lines: list[Line]) -> None:
        for line in lines:
            if self._host is not None and isinstance(wire.parse_message(line), (IndexWritten, Log)):
                self._host.forward(line + b"\n")


def complete_index(order: IndexOrder, report: int, pipeline: EnginePipeline) -> None:
    """Write the complete operator index in this process, which has torch imported, and report
    it."""

    def work() -> None:
        operators = pipeline.make_operators(order.yaml)
        if operators is None:
            return
        static = Path(order.scratch, _STATIC)
        if order.read:
            operators.write_static_index(static)
            wire.write_message(report, IndexWritten(str(static), False))

        def say(sentence: str) -> None:
            wire.write_message(report, Log(0, "engine", sentence + "\n"))

        found = static if static.exists() else None
        path = operators.write_complete_index(found, Path(order.scratch), say)
        wire.write_message(report, IndexWritten(str(path), True))

    _work_quietly("survey", report, work)


def _work_quietly(stage: str, report: int, work: Callable[[], None]) -> None:
    """Call ``work`` at the lowest priority; send any exception as one line of the log."""
    limits.give_way(_NICE[stage])
    limits.end_after(_MOST_SECONDS)
    descriptors.detach_streams()
    try:
        work()
    except BaseException as error:
        wire.write_message(report, _failure_log(error))


def _failure_log(error: BaseException) -> Log:
    words = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
    return Log(0, "engine", f"The operator index of this torch is incomplete: {words}\n")
