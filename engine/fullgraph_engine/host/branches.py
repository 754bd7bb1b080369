"""Trying something out in a fork: what it does to this process is gone when it has answered."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import TypeVar, cast

from . import descriptors, processes

# Bound now: user code may replace them later in the same process.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _write, _close, _getpid = os.read, os.write, os.close, os.getpid
_open, _dup2 = os.open, os.dup2
_signal, _setitimer = signal.signal, signal.setitimer
_select, _monotonic = select.select, time.monotonic
_dumps, _loads = pickle.dumps, pickle.loads
_SLACK = 0.5

T = TypeVar("T")


class Branches:
    """``forking`` is called with True before a fork and with False after it, on both sides."""

    def __init__(self, forking: Callable[[bool], None] = lambda _: None) -> None:
        self._forking = forking

    def __call__(self, work: Callable[[], T], seconds: float) -> T | None:
        """What ``work`` gives in a fork; None where it raised, or did not end in time."""
        come, go = _pipe()
        parent = _getpid()
        descriptors.flush()
        self._forking(True)
        try:
            pid = _fork()
        except OSError:
            descriptors.close_all([come, go])
            return None
        finally:
            self._forking(False)
        if pid == 0:
            try:
                processes.die_with(parent)
                silence()
                # By itself: the sandbox lets no process end another.
                _signal(signal.SIGALRM, signal.SIG_DFL)
                _setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
                _send(go, _dumps(work()))
            finally:
                _exit(0)
        _close(go)
        try:
            answer = _receive(come, _monotonic() + seconds + _SLACK)
        finally:
            _close(come)
        if answer is not None:
            _reap(pid)
        try:
            return cast("T", _loads(answer)) if answer else None
        except Exception:  # it ended in the middle of a word
            return None


def silence() -> None:
    """Print and log nothing from here on: it was seen before, or is of no call of the user's."""
    void = _open("/dev/null", os.O_WRONLY)
    for stream in (1, 2):
        _dup2(void, stream)
    _close(void)


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def _receive(descriptor: int, until: float) -> bytes | None:
    """Everything up to the end; None if it has not come to an end in time."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = _select([descriptor], [], [], max(0.0, until - _monotonic()))
        if not ready:
            return None
        part = _read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _reap(pid: int) -> None:
    with contextlib.suppress(OSError):  # a thread of the user's waits for any child
        _waitpid(pid, 0)
