"""A process that performs an order beside an analysis: a reducer, or one that compares."""

from __future__ import annotations

from collections.abc import Callable

from .lines import LineReader
from .process_backends import processes
from .services import Services
from .wire import Order


class Performer:
    """``hear`` gets each line that the process reports; ``over`` is called once it has ended by
    itself and all is heard, unless it was closed before."""

    def __init__(
        self, host: Services, hear: Callable[[bytes], None], over: Callable[[], None]
    ) -> None:
        self._host, self._hear, self._over = host, hear, over
        self._reports: LineReader | None = None
        self.pid = 0
        """0 where it does not run."""

    def begin(self, order: Order) -> None:
        """Start it.

        Raises:
            OSError: there is no room for a process.
        """
        launched = self._host.backend.perform(order, self)
        self.pid = launched.pid
        self._reports = self._host.reports_of(launched, self._read)

    def _read(self) -> None:
        if self._reports is None:
            return
        for line in self._reports.read():
            self._hear(line)
        if self._reports is not None and self._reports.ended:
            self._host.unwatch(self._reports.descriptor)

    def became(self, pid: int) -> None:
        """It was known from the beginning."""

    def ended(self, code: int | None) -> None:
        """The process has."""
        self.pid = 0
        if self._reports is None:
            return
        for line in self._reports.drain():
            self._hear(line)
        if self._reports is not None:
            self._close()
            self._over()

    def close(self) -> None:
        """Hear no more of it, and have it end; ``kill`` follows when all is said."""
        if self.pid:
            processes.end(self.pid)
        self._close()

    def kill(self) -> None:
        if self.pid:
            processes.kill([self.pid])

    def _close(self) -> None:
        if self._reports is not None:
            self._host.close(self._reports.descriptor)
            self._reports = None
