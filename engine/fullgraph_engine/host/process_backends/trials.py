"""Execute a function on many texts concurrently, each in its own process without user code."""

from __future__ import annotations

import base64
import os
import pickle
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from ..wire import TrialOrder
from . import descriptors, limits, processes
from .branches import silence_output
from .spawning import Spares

# Save these functions at import, because modules that a text imports may replace them later.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _write, _close, _getpid, _setsid = os.read, os.write, os.close, os.getpid, os.setsid
_select, _monotonic = select.select, time.monotonic
_SLACK = 1.0
_START = 120.0
"""Maximum seconds between the start of a process that must import torch and the beginning of its
work."""
_BEGUN = b"\n"

Work = Callable[[str], bytes]


@dataclass
class _Running:
    pid: int
    answers: int
    until: float
    received: bytearray = field(default_factory=bytearray)


class TrialPool:
    """A pool of processes that each call ``work`` on one text (a trial).

    The result of a failed trial is None. ``forking`` is called with True before a process is
    started or ended and with False after it, in both processes. One trial may use ``seconds`` and
    ``memory`` (MiB). All trials end before ``until``, in ``time.monotonic``.
    """

    def __init__(
        self,
        work: Work,
        until: float = float("inf"),
        *,
        capacity: int,
        seconds: float,
        memory: int,
        forking: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._work, self._forking = work, forking
        self.capacity, self.seconds, self.memory = capacity, seconds, memory
        self._running: dict[int, _Running] = {}
        self._number = 0
        self._until = until

    @property
    def free(self) -> int:
        return self.capacity - len(self._running)

    def submit(self, text: str) -> int:
        """Start a process that calls ``work`` on ``text``; return a number for the call.

        Raises:
            OSError: the system lacks a process or a pipe.
        """
        self._number += 1
        self._running[self._number] = self._start(text)
        return self._number

    def wait(self) -> tuple[int, bytes | None]:
        """Wait until the next of the started calls has ended; return its number and its result,
        None if it failed.

        Raises:
            LookupError: no call is running.
        """
        while True:
            if not self._running:
                raise LookupError("no trial process is running")
            now = _monotonic()
            until = min(trial.until for trial in self._running.values())
            open_ = {trial.answers: number for number, trial in self._running.items()}
            ready, _, _ = _select(list(open_), [], [], max(0.0, until - now))
            for descriptor in ready:
                number = open_[descriptor]
                trial = self._running[number]
                part = _read(descriptor, 1 << 16)
                if not part:
                    received = bytes(trial.received).removeprefix(_BEGUN)
                    self.kill(number)
                    return number, received or None
                if not trial.received:
                    trial.until = min(_monotonic() + self.seconds + _SLACK, self._until)
                trial.received += part
            for number, trial in list(self._running.items()):
                if trial.until <= _monotonic():
                    self.kill(number)
                    return number, None

    def kill(self, number: int) -> None:
        """Kill the process of the call with this number, and the processes that it started; its
        result is discarded."""
        trial = self._running.pop(number, None)
        if trial is None:
            return
        _close(trial.answers)
        self._forking(True)  # the sandbox allows this signal only while ``forking`` is set
        try:
            processes.kill_process(trial.pid)
        finally:
            self._forking(False)
        try:
            _waitpid(trial.pid, 0)
        except OSError:
            return

    def _start(self, text: str) -> _Running:
        reading, writing = _pipe()
        parent = _getpid()
        self._forking(True)
        try:
            pid = _fork()
        except OSError:
            descriptors.close_all([reading, writing])
            raise
        finally:
            self._forking(False)
        if pid == 0:
            try:
                _setsid()
                processes.die_with(parent)
                for trial in self._running.values():
                    _close(trial.answers)
                write_answer(writing, lambda: self._work(text), self.seconds, self.memory)
            finally:
                _exit(0)
        _close(writing)
        return _Running(pid, reading, min(_monotonic() + self.seconds + _SLACK, self._until))


class SpawnedTrialPool(TrialPool):
    """A pool that calls ``work`` on texts in interpreters started in advance, where forks are
    unavailable.

    ``work`` must be picklable. ``order`` creates the order of one call from the pickled work, a
    text and the limits. ``folder`` stores orders until they are read.
    """

    def __init__(
        self,
        work: Work,
        until: float,
        spares: Spares,
        folder: str,
        order: Callable[[str, str, float, int], TrialOrder],
        *,
        capacity: int,
        seconds: float,
        memory: int,
        forking: Callable[[bool], None] = lambda _: None,
    ) -> None:
        super().__init__(
            work, until, capacity=capacity, seconds=seconds, memory=memory, forking=forking
        )
        self._spares, self._folder, self._order = spares, folder, order
        self._packed = base64.b64encode(pickle.dumps(work)).decode()

    def _start(self, text: str) -> _Running:
        spare = self._spares.take()
        spare.send_order(self._order(self._packed, text, self.seconds, self.memory), self._folder)
        spare.close()
        ours = spare.channels
        descriptors.close_all((ours.stdout, ours.stderr, ours.box))
        if not len(self._spares):
            self._spares.add()
        os.set_blocking(ours.reports, True)
        until = min(_monotonic() + _START, self._until)
        return _Running(spare.pid, ours.reports, until)


def perform_trial(trial: TrialOrder, report: int) -> NoReturn:
    """Call the function that an order names on a program's text, in this interpreter; send the
    result and exit."""
    try:
        work: Work = pickle.loads(base64.b64decode(trial.work))
        write_answer(report, lambda: work(trial.text), trial.seconds, trial.memory)
    finally:
        _exit(0)


def write_answer(writing: int, work: Callable[[], bytes], seconds: float, memory: int) -> None:
    """Call ``work`` within the limits ``seconds`` and ``memory`` (MiB), and write the bytes that it
    returns to the descriptor ``writing``."""
    silence_output()
    _write(writing, _BEGUN)
    limits.end_within(None, seconds)
    limits.apply_limits(memory)
    descriptors.write_all(writing, work())
