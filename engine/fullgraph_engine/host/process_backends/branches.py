"""Evaluate a function in a forked process, so that its side effects do not affect this process."""

from __future__ import annotations

import base64
import os
import pickle
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ... import texts
from ..wire import BranchAnswer, BranchBegun
from . import descriptors, limits, processes

# Save these functions at import, because user code may replace them later in this process.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _close, _getpid = os.read, os.close, os.getpid
_open, _dup2 = os.open, os.dup2
_select, _monotonic, _process_time = select.select, time.monotonic, time.process_time
_dumps, _loads = pickle.dumps, pickle.loads
_SLACK = 0.5
_PATIENCE = 3.0

T = TypeVar("T")


@dataclass(frozen=True)
class BranchResult(Generic[T]):
    """The result of a function evaluated in another process: the returned ``value``. If the value
    is missing, ``lost`` is the reason."""

    value: T | None = None
    lost: str = ""
    late: bool = False
    """True if the time limit was reached before the function returned."""
    used: float = 0.0
    """Seconds of processor time that the function used in an earlier process of the same run; 0 if
    a child of this process evaluated it, because the system already counts the time of children."""


class Branches:
    """A callable that evaluates functions in forked processes, so that they do not change this
    process.

    ``forking`` is called with True before a fork and with False after it, in both processes. All
    forks end before ``until``, a time of ``time.monotonic``. ``answers`` are results that earlier
    processes computed, by function name.
    """

    def __init__(
        self,
        forking: Callable[[bool], None] = lambda _: None,
        until: float = float("inf"),
        answers: Iterable[BranchAnswer] = (),
    ) -> None:
        self._forking = forking
        self._until = until
        self._answers = {answer.name: answer for answer in answers}

    def __call__(self, work: Callable[[], T], seconds: float, name: str = "") -> BranchResult[T]:
        """Return the result of ``work``, evaluated in a forked process within ``seconds`` of
        processor time.

        If an earlier process already evaluated the function called ``name``, return that result.
        The limit of elapsed time is higher than ``seconds``, since a low-priority process may wait
        for a processor.
        """
        known = self._answers.get(name)
        if known is not None:
            return unpack_answer(known)
        most = min(_PATIENCE * seconds, self._until - _monotonic() - _SLACK)
        late = BranchResult[T](lost=late_words(seconds), late=True)
        if most <= 0:
            return late
        reading, writing = _pipe()
        parent = _getpid()
        descriptors.flush_streams()
        self._forking(True)
        try:
            pid = _fork()
        except OSError as error:
            descriptors.close_all([reading, writing])
            return BranchResult(lost=f"no process could be started ({error.strerror})")
        finally:
            self._forking(False)
        if pid == 0:
            try:
                processes.die_with(parent)
                silence_output()
                # The fork limits itself, because the sandbox prevents it from being killed.
                limits.end_within(seconds, most)
                descriptors.write_all(writing, _dumps(evaluate_here(work)))
            finally:
                _exit(0)
        _close(writing)
        try:
            answer = _receive_all(reading, _monotonic() + most + _SLACK)
        finally:
            _close(reading)
        if answer is None:
            return late
        status = _wait_status(pid)
        code = os.waitstatus_to_exitcode(status)
        if limits.ran_out_of_time(code):
            return late
        try:
            found: BranchResult[T] = _loads(answer)
        except Exception:  # the process ended before it wrote the whole answer
            return BranchResult(lost=describe_end(code))
        return found


def evaluate_here(work: Callable[[], T]) -> BranchResult[T]:
    """Evaluate a function in this process; return its value or the reason for the failure."""
    try:
        return BranchResult(work())
    except BaseException as error:  # user code may raise anything
        return BranchResult(lost=f"it raised {texts.type_and_message(error)}")


def describe_end(code: int | None) -> str:
    """Return a clause on how a process ended before it sent the result of a function; ``code`` is
    its exit code."""
    return f"it {processes.describe_exit(code)}"


class Replay:
    """A callable that evaluates functions in separate processes on systems without ``fork``.

    A process evaluates only the first function whose result is not in ``answers``, sends the result
    to the main process with ``tell``, and ends. The main process then starts the same run again
    with this answer, until all results are known. With ``last``, functions without an answer are
    not evaluated.
    """

    def __init__(
        self,
        answers: Iterable[BranchAnswer],
        tell: Callable[[BranchBegun | BranchAnswer], None],
        until: float,
        *,
        last: bool,
    ) -> None:
        self._answers = {answer.name: answer for answer in answers}
        self._tell, self._until, self._last = tell, until, last

    def __call__(  # noqa: RET503 - it ends with the process
        self, work: Callable[[], T], seconds: float, name: str = ""
    ) -> BranchResult[T]:
        """Return the result that an earlier process computed for the function called ``name``.

        If there is none, evaluate ``work``, send its result to the main process, and end this
        process.
        """
        answer = self._answers.get(name)
        if answer is not None:
            return unpack_answer(answer)
        most = min(_PATIENCE * seconds, self._until - _monotonic() - _SLACK)
        if self._last or most <= 0:
            return BranchResult(lost=late_words(seconds), late=True)
        self._tell(BranchBegun(name, seconds))
        limits.end_within(seconds, most)
        before = _process_time()
        found = evaluate_here(work)
        try:
            packed = base64.b64encode(_dumps(found.value)).decode()
        except Exception as error:
            packed = ""
            found = BranchResult(
                lost=f"its result cannot be sent to the parent process "
                f"({texts.error_message(error)})"
            )
        self._tell(BranchAnswer(name, packed, found.lost, used=_process_time() - before))
        _exit(0)


def unpack_answer(answer: BranchAnswer) -> BranchResult[Any]:
    """Decode the result of a function that another process evaluated.

    Its value is None if the result is missing.
    """
    value = _loads(base64.b64decode(answer.packed)) if answer.packed else None
    return BranchResult(value, answer.lost, answer.late, answer.used)


def late_words(seconds: float) -> str:
    """Return a clause for the user: the result is missing because it took longer than
    ``seconds``."""
    return f"it did not end within {seconds:.1f} seconds"


def silence_output() -> None:
    """Discard all further output of this process, because it repeats what another process has
    printed."""
    void = _open("/dev/null", os.O_WRONLY)
    for stream in (1, 2):
        _dup2(void, stream)
    _close(void)


def _receive_all(descriptor: int, until: float) -> bytes | None:
    """Read from a descriptor up to its end. Return None if the end does not come before
    ``until``."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = _select([descriptor], [], [], max(0.0, until - _monotonic()))
        if not ready:
            return None
        part = _read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _wait_status(pid: int) -> int:
    try:
        return _waitpid(pid, 0)[1]
    except OSError:  # a thread of user code has already collected this child's exit status
        return 0
