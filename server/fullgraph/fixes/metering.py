"""Measure the processor time that an engine spends on fixes, and limit it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from fullgraph.fixes.tracing import Asked, Tracer
from fullgraph_engine.protocol import Analyze, Analyzed, Compare, Compared, Event

BUSY_RATIO = 2.5
"""Ratio of wall time to processor time above which the machine counts as busy, because processes
mostly wait for a processor."""
LEAST_MEASURED = 1.0
"""Minimum seconds of processor time to measure before a machine can count as busy."""
BUSY_NICE = 1
"""Niceness of traces on a busy machine. With a higher one they would get hardly any processor time;
with 0 they would delay the user's traces."""


@dataclass
class ProcessorMeter:
    """Processor and wall time, in seconds, of the engine's work on fixes.

    Where the engine does not measure processor time, wall time counts instead.
    """

    wall: float = 0.0
    cpu: float = 0.0

    def since(self, before: ProcessorMeter) -> ProcessorMeter:
        """Return the seconds added since ``before``, an earlier copy of this meter."""
        return ProcessorMeter(self.wall - before.wall, self.cpu - before.cpu)

    def add(self, wall: float, cpu: float | None) -> None:
        """Add the times of one request, in seconds; ``cpu`` is None if its processor time was not
        measured.
        """
        self.wall += wall
        self.cpu += wall if cpu is None else cpu

    def add_cancelled(self, wall: float) -> None:
        """Add the wall time of a cancelled request, whose processor time is estimated from the
        other requests."""
        self.add(wall, wall * min(self.cpu / self.wall, 1.0) if self.wall else wall)

    @property
    def is_busy(self) -> bool:
        """Whether the measured processes have waited for a processor during most of their time."""
        return self.wall > BUSY_RATIO * max(self.cpu, LEAST_MEASURED)


def is_machine_busy() -> bool:
    """Whether more processes than processors have wanted to run during the last minute."""
    try:
        return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # Windows does not report the load average
        return False


class MeteredTracer:
    """A tracer that measures the times of its requests, and gives them a higher priority on a busy
    machine.

    ``on_request`` is called before each request, ``on_measured`` after each.
    """

    def __init__(
        self,
        tracer: Tracer,
        meter: ProcessorMeter,
        *,
        is_busy: Callable[[], bool] = is_machine_busy,
        on_request: Callable[[], None] = lambda: None,
        on_measured: Callable[[], None] = lambda: None,
    ) -> None:
        self._tracer, self._meter = tracer, meter
        self._is_busy = is_busy
        self._on_request, self._on_measured = on_request, on_measured

    def analyze(self, request: Analyze) -> Asked:
        self._on_request()
        if self._meter.is_busy or self._is_busy():
            request = dataclasses.replace(request, nice=min(request.nice, BUSY_NICE))
        return _MeteredRequest(self._tracer.analyze(request), self._meter, self._on_measured)

    def compare(self, request: Compare) -> Asked:
        self._on_request()
        return _MeteredRequest(self._tracer.compare(request), self._meter, self._on_measured)


class _MeteredRequest:
    """A request whose times are measured when it ends."""

    def __init__(
        self, asked: Asked, meter: ProcessorMeter, on_measured: Callable[[], None]
    ) -> None:
        self._asked, self._meter, self._on_measured = asked, meter, on_measured
        self._began = asyncio.get_running_loop().time()
        self._is_measured = False

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self._asked:
            if isinstance(event, (Analyzed, Compared)) and not self._is_measured:
                self._is_measured = True
                self._meter.add(event.seconds, event.cpu)
                self._on_measured()
            yield event

    def cancel(self) -> None:
        self._asked.cancel()
        if not self._is_measured:
            self._is_measured = True
            self._meter.add_cancelled(asyncio.get_running_loop().time() - self._began)
