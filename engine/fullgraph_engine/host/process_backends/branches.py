"""Trying something out in a fork: what it does to this process is gone when it has answered."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from . import descriptors, processes

# Bound now: user code may replace them later in the same process.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _write, _close, _getpid = os.read, os.write, os.close, os.getpid
_open, _dup2 = os.open, os.dup2
_signal, _setitimer = signal.signal, signal.setitimer
_select, _monotonic = select.select, time.monotonic
_dumps, _loads = pickle.dumps, pickle.loads
_SLACK = 0.5
_PATIENCE = 3.0
_TIME_IS_UP = (signal.SIGALRM, signal.SIGPROF)

T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a fork gave: a value, or ``lost`` says how it ended instead, as part of a sentence."""

    value: T | None = None
    lost: str = ""
    late: bool = False
    """It was lost because time was up."""


class Branches:
    """``forking`` is called with True before a fork and with False after it, on both sides.

    ``until`` is when all have to be through, by the monotonic clock.
    """

    def __init__(
        self,
        forking: Callable[[bool], None] = lambda _: None,
        until: float = float("inf"),
    ) -> None:
        self._forking = forking
        self._until = until

    def __call__(self, work: Callable[[], T], seconds: float) -> Answer[T]:
        """What ``work`` gives in a fork; ``seconds`` are of processor time.

        A process that gives way to others may wait for a processor longer than it has one; but
        not for ever, as one does that waits for something else.
        """
        most = min(_PATIENCE * seconds, self._until - _monotonic() - _SLACK)
        late = Answer[T](lost=f"it did not end within {seconds:.1f} seconds", late=True)
        if most <= 0:
            return late
        come, go = _pipe()
        parent = _getpid()
        descriptors.flush()
        self._forking(True)
        try:
            pid = _fork()
        except OSError as error:
            descriptors.close_all([come, go])
            return Answer(lost=f"no process could be started ({error.strerror})")
        finally:
            self._forking(False)
        if pid == 0:
            try:
                processes.die_with(parent)
                silence()
                # By itself: the sandbox lets no process end another.
                for number in _TIME_IS_UP:
                    _signal(number, signal.SIG_DFL)
                _setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
                _setitimer(signal.ITIMER_REAL, most)
                _send(go, _dumps(_worked(work)))
            finally:
                _exit(0)
        _close(go)
        try:
            answer = _receive(come, _monotonic() + most + _SLACK)
        finally:
            _close(come)
        if answer is None:
            return late
        status = _reap(pid)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in _TIME_IS_UP:
            return late
        try:
            found: Answer[T] = _loads(answer)
        except Exception:  # it ended before its last word
            return Answer(lost=_end(status))
        return found


def _worked(work: Callable[[], T]) -> Answer[T]:
    try:
        return Answer(work())
    except BaseException as error:  # whatever the user's code raises
        return Answer(lost=f"it raised {type(error).__name__}: {error}".rstrip(": "))


def _end(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"it crashed ({signal.strsignal(number) or f'signal {number}'})"
    return f"it exited with status {os.waitstatus_to_exitcode(status)}"


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


def _reap(pid: int) -> int:
    try:
        return _waitpid(pid, 0)[1]
    except OSError:  # a thread of the user's waits for any child
        return 0
