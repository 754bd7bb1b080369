"""A request to minimize programs, and the services of the process that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..protocol import Log, Reproduced, ReproFound, ReproProgress

Say = Callable[[ReproProgress | ReproFound | Reproduced | Log], None]
Judge = Callable[[str], bytes]
"""Function that runs the text of a program in a separate process and decides if the program shows
the finding.

The function is pickled unless the process is a fork.
"""

TRIAL_SECONDS = 10.0
"""Maximum seconds to run one program, if nothing in it is compiled."""


VERIFYING = 8.0
"""Seconds of the time limit reserved for running the script in a fresh Python."""


GRACE = 2.0
"""Seconds by which the run in a fresh Python may exceed the time limit."""


class TrialRunner(Protocol):
    """Interface for objects that test programs in separate processes, several at a time."""

    capacity: int

    def submit(self, text: str) -> int: ...
    def wait(self) -> tuple[int, bytes | None]: ...
    def kill(self, number: int) -> None: ...


@dataclass
class Surroundings:
    """Functions that the caller gives to the minimizing process, for example to start processes."""

    trials: Callable[[Judge, float, float], TrialRunner]
    """Creates a :class:`TrialRunner`.

    The arguments are the function that tests a program, the maximum seconds per program, and the
    ``time.monotonic()`` time by which all must have ended.
    """
    forking: Callable[[bool], None]
    scratch: str
    let_start: Callable[[frozenset[str]], bool] = lambda _: False
    """Permits this process and its forks to start the programs with these names, such as a
    compiler.

    It returns False if the operating system does not support such permissions.
    """
    forks: bool = True
    """True if programs run in forks of this process, which inherit its state."""


@dataclass(frozen=True)
class MinimizationJob:
    """A request for the smallest script that shows a finding.

    ``packed`` holds the candidate programs as JSON. ``began`` is when the user requested the script
    (``time.monotonic()``). The job may take ``seconds`` from then, plus ``GRACE`` for the last
    script that runs in a fresh Python.
    """

    request: int
    packed: str
    began: float
    seconds: float
