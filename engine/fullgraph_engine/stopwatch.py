"""How long the phases of something take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from .protocol.timings import Phase, PhaseTime

# Bound now: user code may replace them later in the same process.
_wall, _cpu = time.monotonic, time.process_time


class Stopwatch:
    """Is always in one phase; adds up what each takes. ``began`` is when the first one did, if that
    is earlier, as ``time.monotonic`` has it in any process of the machine."""

    def __init__(self, phase: Phase, began: float = 0.0) -> None:
        self._phase, self._wall, self._cpu = phase, began or _wall(), _cpu()
        self._taken: dict[Phase, tuple[float, float]] = {}

    def enter(self, phase: Phase) -> Phase:
        """End the phase; returns it."""
        wall, cpu = _wall(), _cpu()
        before = self._taken.get(self._phase, (0.0, 0.0))
        took = (before[0] + wall - self._wall, before[1] + max(cpu - self._cpu, 0.0))
        self._taken[self._phase] = took
        ended, self._phase, self._wall, self._cpu = self._phase, phase, wall, cpu
        return ended

    def forked(self) -> None:
        """Processor time is counted anew in a child."""
        self._cpu = _cpu()

    @contextlib.contextmanager
    def within(self, phase: Phase) -> Iterator[None]:
        """What is inside belongs to another phase."""
        outer = self.enter(phase)
        try:
            yield
        finally:
            self.enter(outer)

    def phases(self) -> tuple[PhaseTime, ...]:
        """Those so far, in the order in which they began."""
        self.enter(self._phase)
        return tuple(
            PhaseTime(phase, round(wall, 6), round(cpu, 6))
            for phase, (wall, cpu) in self._taken.items()
        )
