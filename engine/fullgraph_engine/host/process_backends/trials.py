"""Trying many texts out, each in a fork of a process that holds no user code, several at a time."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from . import descriptors, limits, processes
from .branches import silence

# Bound now: what is imported for a text may replace them later.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _write, _close, _getpid, _setsid = os.read, os.write, os.close, os.getpid, os.setsid
_signal, _setitimer = signal.signal, signal.setitimer
_select, _monotonic = select.select, time.monotonic
_SLACK = 1.0


@dataclass
class _Trial:
    pid: int
    answers: int
    until: float
    said: bytearray = field(default_factory=bytearray)


class Trials:
    """Runs ``work`` on texts in forks. What it returns comes back; None for one that did not end.

    ``forking`` is called with True before a fork and with False after it, on both sides.
    ``seconds`` and ``memory`` (MiB) are what one trial may take.
    """

    def __init__(
        self,
        work: Callable[[str], bytes],
        *,
        capacity: int,
        seconds: float,
        memory: int,
        forking: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._work, self._forking = work, forking
        self.capacity, self.seconds, self.memory = capacity, seconds, memory
        self._running: dict[int, _Trial] = {}
        self._number = 0

    @property
    def free(self) -> int:
        return self.capacity - len(self._running)

    def submit(self, text: str) -> int:
        """Start a trial; its number.

        Raises:
            OSError: no process or pipe could be had.
        """
        come, go = _pipe()
        parent = _getpid()
        self._forking(True)
        try:
            pid = _fork()
        except OSError:
            descriptors.close_all([come, go])
            raise
        finally:
            self._forking(False)
        if pid == 0:
            self._become_trial(parent, go, text)
        _close(go)
        self._number += 1
        self._running[self._number] = _Trial(pid, come, _monotonic() + self.seconds + _SLACK)
        return self._number

    def wait(self) -> tuple[int, bytes | None]:
        """The next trial that has ended, and what ``work`` gave.

        Raises:
            LookupError: none is running.
        """
        while True:
            if not self._running:
                raise LookupError("no trial is running")
            now = _monotonic()
            until = min(trial.until for trial in self._running.values())
            open_ = {trial.answers: number for number, trial in self._running.items()}
            ready, _, _ = _select(list(open_), [], [], max(0.0, until - now))
            for descriptor in ready:
                number = open_[descriptor]
                part = _read(descriptor, 1 << 16)
                if part:
                    self._running[number].said += part
                else:
                    said = bytes(self._running[number].said)
                    self.kill(number)
                    return number, said or None
            for number, trial in list(self._running.items()):
                if trial.until <= _monotonic():
                    self.kill(number)
                    return number, None

    def kill(self, number: int) -> None:
        """Forget a trial, and end its process and what it has started."""
        trial = self._running.pop(number, None)
        if trial is None:
            return
        _close(trial.answers)
        self._forking(True)  # the sandbox lets nobody else be signalled
        try:
            processes.signal_process(trial.pid, signal.SIGKILL)
        finally:
            self._forking(False)
        try:
            _waitpid(trial.pid, 0)
        except OSError:
            return

    def _become_trial(self, parent: int, go: int, text: str) -> None:
        try:
            _setsid()
            processes.die_with(parent)
            silence()
            for trial in self._running.values():
                _close(trial.answers)
            # By itself: the sandbox lets no process end another.
            _signal(signal.SIGALRM, signal.SIG_DFL)
            _setitimer(signal.ITIMER_REAL, max(self.seconds, 0.01))
            limits.apply(self.memory)
            view = memoryview(self._work(text))
            while view:
                view = view[_write(go, view) :]
        finally:
            _exit(0)
