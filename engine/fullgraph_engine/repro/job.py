"""What a process that makes programs smaller is given, and what it is to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..protocol import Log, Reproduced, ReproFound, ReproProgress

Say = Callable[[ReproProgress | ReproFound | Reproduced | Log], None]
Judge = Callable[[str], bytes]
"""What a trial does with a text. It can be pickled, where a trial is no fork."""

TRIAL_SECONDS = 10.0
"""What one trial may take where nothing is compiled."""


VERIFYING = 8.0
"""Seconds of the budget that are kept for running the script in a fresh Python."""


GRACE = 2.0
"""Seconds by which that may exceed the budget."""


class Trials(Protocol):
    """Candidates in processes of their own, several at a time."""

    capacity: int

    def submit(self, text: str) -> int: ...
    def wait(self) -> tuple[int, bytes | None]: ...
    def kill(self, number: int) -> None: ...


@dataclass
class Surroundings:
    """What the process gives: trials of texts, and how processes may be started."""

    trials: Callable[[Judge, float, float], Trials]
    """The seconds that one may take, and when all must have ended, by ``time.monotonic``."""
    forking: Callable[[bool], None]
    scratch: str
    let_start: Callable[[frozenset[str]], bool] = lambda _: False
    """Let this process and its forks start programs of these names; False if they may not be."""
    forks: bool = True
    """Whether trials are forks of this process; else nothing that was done here is there."""


@dataclass(frozen=True)
class Job:
    """Make the smallest script of candidates that were packed for ``request``.

    It was asked for at ``began`` (``time.monotonic()``) and may take ``seconds`` from then, and
    ``GRACE`` for the last script that is run in a fresh Python.
    """

    request: int
    packed: str
    began: float
    seconds: float
