"""Trying something out in a process that ends with it: it does nothing to this one."""

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
from ..wire import BranchAnswer, Branching
from . import descriptors, limits, processes

# Bound now: user code may replace them later in the same process.
_fork, _waitpid, _exit, _pipe = os.fork, os.waitpid, os._exit, os.pipe
_read, _close, _getpid = os.read, os.close, os.getpid
_open, _dup2 = os.open, os.dup2
_select, _monotonic, _process_time = select.select, time.monotonic, time.process_time
_dumps, _loads = pickle.dumps, pickle.loads
_SLACK = 0.5
_PATIENCE = 3.0

T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a fork gave: a value, or ``lost`` says how it ended instead, as part of a sentence."""

    value: T | None = None
    lost: str = ""
    late: bool = False
    """It was lost because time was up."""
    used: float = 0.0
    """Seconds of processor time, if it was given by a process that is no child of this one."""


class Branches:
    """``forking`` is called with True before a fork and with False after it, on both sides.

    ``until`` is when all have to be through, by the monotonic clock; ``answers`` are there already.
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

    def __call__(self, work: Callable[[], T], seconds: float, name: str = "") -> Answer[T]:
        """What ``work`` gives in a fork; ``seconds`` are of processor time.

        A process that gives way to others may wait for a processor longer than it has one; but
        not for ever, as one does that waits for something else.
        """
        known = self._answers.get(name)
        if known is not None:
            return unpacked(known)
        most = min(_PATIENCE * seconds, self._until - _monotonic() - _SLACK)
        late = Answer[T](lost=late_words(seconds), late=True)
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
                limits.end_within(seconds, most)
                descriptors.write_all(go, _dumps(answer_of(work)))
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
        code = os.waitstatus_to_exitcode(status)
        if limits.ran_out_of_time(code):
            return late
        try:
            found: Answer[T] = _loads(answer)
        except Exception:  # it ended before its last word
            return Answer(lost=ending(code))
        return found


def answer_of(work: Callable[[], T]) -> Answer[T]:
    """What it gives in this process, or how it failed."""
    try:
        return Answer(work())
    except BaseException as error:  # whatever the user's code raises
        return Answer(lost=f"it raised {texts.type_and_message(error)}")


def ending(code: int | None) -> str:
    """How a process ended that had not answered."""
    return f"it {processes.ending(code)}"


class Replay:
    """Trying something out where nothing can be forked, or ahead of the run that asks for it.

    This process tries it itself, tells what came of it, and ends. Then the same run is made again
    with that answer: a process that had the answers to all of its questions never ends here.
    ``last``: what has no answer is given none. ``tell`` reports to the parent; the rest is as
    ``Branches`` has it.
    """

    def __init__(
        self,
        answers: Iterable[BranchAnswer],
        tell: Callable[[Branching | BranchAnswer], None],
        until: float,
        *,
        last: bool,
    ) -> None:
        self._answers = {answer.name: answer for answer in answers}
        self._tell, self._until, self._last = tell, until, last

    def __call__(  # noqa: RET503 - it ends with the process
        self, work: Callable[[], T], seconds: float, name: str = ""
    ) -> Answer[T]:
        """``name`` tells one question from another."""
        answer = self._answers.get(name)
        if answer is not None:
            return unpacked(answer)
        most = min(_PATIENCE * seconds, self._until - _monotonic() - _SLACK)
        if self._last or most <= 0:
            return Answer(lost=late_words(seconds), late=True)
        self._tell(Branching(name, seconds))
        limits.end_within(seconds, most)
        before = _process_time()
        found = answer_of(work)
        try:
            packed = base64.b64encode(_dumps(found.value)).decode()
        except Exception as error:
            packed = ""
            found = Answer(lost=f"its answer cannot be passed on ({texts.error_message(error)})")
        self._tell(BranchAnswer(name, packed, found.lost, used=_process_time() - before))
        _exit(0)


def unpacked(answer: BranchAnswer) -> Answer[Any]:
    """The answer that another process packed; its value is unpickled, None if there is none."""
    value = _loads(base64.b64decode(answer.packed)) if answer.packed else None
    return Answer(value, answer.lost, answer.late, answer.used)


def late_words(seconds: float) -> str:
    """Why there is no answer after so many seconds, as a clause."""
    return f"it did not end within {seconds:.1f} seconds"


def silence() -> None:
    """Print and log nothing from here on: it was seen before, or is of no call of the user's."""
    void = _open("/dev/null", os.O_WRONLY)
    for stream in (1, 2):
        _dup2(void, stream)
    _close(void)


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
