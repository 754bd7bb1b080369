"""How long a process may go on: in processor time, so that a busy machine tries no less."""

from __future__ import annotations

import time

_WALL = 2.5
"""How much longer it may take by the clock: code may wait for something. It is less than the time
after which such a process is ended, which takes with it all that it has seen."""


class Budget:
    """Begins when it is made. ``seconds`` are of processor time."""

    def __init__(self, seconds: float) -> None:
        self._processor = time.process_time() + seconds
        self._wall = time.monotonic() + _WALL * seconds

    @property
    def spent(self) -> bool:
        return time.process_time() > self._processor or time.monotonic() > self._wall
