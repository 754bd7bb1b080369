"""The job of a process that minimizes candidates, and the services that the process provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..protocol import Log, Reproduced, ReproFound, ReproProgress

Say = Callable[[ReproProgress | ReproFound | Reproduced | Log], None]
Judge = Callable[[str], bytes]
"""Function that a trial applies to a program text. It is pickled unless trials are forks."""

TRIAL_SECONDS = 10.0
"""Maximum seconds of one trial that compiles nothing."""


VERIFYING = 8.0
"""Seconds of the time budget reserved for running the script in a fresh Python."""


GRACE = 2.0
"""Seconds by which the run in a fresh Python may exceed the time budget."""


class TrialRunner(Protocol):
    """Protocol of an object that runs candidates in separate processes, several at a time."""

    capacity: int

    def submit(self, text: str) -> int: ...
    def wait(self) -> tuple[int, bytes | None]: ...
    def kill(self, number: int) -> None: ...


@dataclass
class Surroundings:
    """Services of the process that minimizes: running trials and starting processes."""

    trials: Callable[[Judge, float, float], TrialRunner]
    """Factory of trial runners. Takes the maximum seconds per trial, and the time by which all
    trials must have ended, as ``time.monotonic`` counts."""
    forking: Callable[[bool], None]
    scratch: str
    let_start: Callable[[frozenset[str]], bool] = lambda _: False
    """Function to allow this process and its forks to start programs of these names. Returns False
    if the system cannot allow it."""
    forks: bool = True
    """Flag that trials are forks of this process and thus inherit its state."""


@dataclass(frozen=True)
class MinimizationJob:
    """A request for the smallest script that shows a finding; ``packed`` holds the candidates as
    JSON.

    ``began`` is when the user requested it (``time.monotonic()``). It may take ``seconds`` from
    then, plus ``GRACE`` for the last script that runs in a fresh Python.
    """

    request: int
    packed: str
    began: float
    seconds: float
