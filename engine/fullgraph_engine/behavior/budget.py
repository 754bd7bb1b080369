"""Time limit of a process in processor time, so that a busy machine tries as many cases."""

from __future__ import annotations

import time

_WALL = 2.5
"""Maximum ratio of wall time to processor time, as code may wait for something. It is below the
limit at which the engine kills the process, which would lose everything observed.
"""


class ProcessorBudget:
    """A time limit that begins at its creation; ``seconds`` are of processor time."""

    def __init__(self, seconds: float) -> None:
        self._processor = time.process_time() + seconds
        self._wall = time.monotonic() + _WALL * seconds

    @property
    def spent(self) -> bool:
        return time.process_time() > self._processor or time.monotonic() > self._wall
