"""Time limit in processor time, so that a busy machine makes as many test calls as an idle one."""

from __future__ import annotations

import time

_WALL = 2.5
"""Maximum ratio of wall time to processor time of the test calls, because user code may wait for
something.

The engine kills the process at a higher ratio, and all results would be lost.
"""


class ProcessorBudget:
    """A time limit of ``seconds`` of processor time; it begins when the object is created."""

    def __init__(self, seconds: float) -> None:
        self._processor = time.process_time() + seconds
        self._wall = time.monotonic() + _WALL * seconds

    @property
    def spent(self) -> bool:
        return time.process_time() > self._processor or time.monotonic() > self._wall
