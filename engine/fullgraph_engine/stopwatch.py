"""Measurement of how long the phases of a job take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from .protocol.timings import Phase, PhaseTime

# Bound at import, because user code may replace these functions later in the same process.
_wall, _cpu = time.monotonic, time.process_time


class Stopwatch:
    """A timer that adds up the time of each phase of a request; one phase is always active.

    ``began`` is the start of the first phase, if it was earlier than now, as a value of
    ``time.monotonic``, which all processes of the machine share.
    """

    def __init__(self, phase: Phase, began: float = 0.0) -> None:
        self._phase, self._wall, self._cpu = phase, began or _wall(), _cpu()
        self._times: dict[Phase, tuple[float, float]] = {}

    def enter_phase(self, phase: Phase) -> Phase:
        """End the current phase and begin another; return the phase that ended."""
        wall, cpu = _wall(), _cpu()
        before = self._times.get(self._phase, (0.0, 0.0))
        total = (before[0] + wall - self._wall, before[1] + max(cpu - self._cpu, 0.0))
        self._times[self._phase] = total
        ended, self._phase, self._wall, self._cpu = self._phase, phase, wall, cpu
        return ended

    def restart_cpu_time(self) -> None:
        """Restart the measurement of processor time in a forked child, where the counter begins at
        zero."""
        self._cpu = _cpu()

    @contextlib.contextmanager
    def count_as(self, phase: Phase) -> Iterator[None]:
        """Count the time of the block for ``phase`` instead of the current phase."""
        outer = self.enter_phase(phase)
        try:
            yield
        finally:
            self.enter_phase(outer)

    def phase_times(self) -> tuple[PhaseTime, ...]:
        """Return the wall and processor seconds of each phase, in the order in which they began."""
        self.enter_phase(self._phase)
        return tuple(
            PhaseTime(phase, round(wall, 6), round(cpu, 6))
            for phase, (wall, cpu) in self._times.items()
        )
