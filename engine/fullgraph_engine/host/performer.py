"""Manage a process that performs one order for a request, such as minimizing a program or comparing
two versions of a file."""

from __future__ import annotations

from collections.abc import Callable

from .lines import LineReader
from .process_backends import processes
from .services import Services
from .wire import Order


class Performer:
    """A process that performs one order, such as minimizing a program or comparing two versions of
    a file.

    ``hear`` is called with each line that the process sends. ``over`` is called after the last line
    when the process ends, unless ``close`` was called before.
    """

    def __init__(
        self, host: Services, hear: Callable[[bytes], None], over: Callable[[], None]
    ) -> None:
        self._host, self._hear, self._over = host, hear, over
        self._reports: LineReader | None = None
        self.pid = 0
        """Pid of the process; 0 before its start and after its end."""

    def begin(self, order: Order) -> None:
        """Start a process that performs ``order``.

        Raises:
            OSError: the system lacks resources for a process.
        """
        launched = self._host.backend.perform_order(order, self)
        self.pid = launched.pid
        self._reports = self._host.watch_reports(launched, self._read)

    def _read(self) -> None:
        if self._reports is None:
            return
        for line in self._reports.read():
            self._hear(line)
        if self._reports is not None and self._reports.ended:
            self._host.unwatch(self._reports.descriptor)

    def set_pid(self, pid: int) -> None:
        """Do nothing: the pid is already known from the start of the process."""

    def handle_end(self, code: int | None) -> None:
        """Read the last lines of the process after it ended, and call ``over``."""
        self.pid = 0
        if self._reports is None:
            return
        for line in self._reports.drain():
            self._hear(line)
        if self._reports is not None:
            self._close()
            self._over()

    def close(self) -> None:
        """Kill the process itself, and stop reading its messages.

        After the last event of the request was sent, call ``kill`` to kill the processes that it
        started.
        """
        if self.pid:
            processes.kill_process(self.pid)
        self._close()

    def kill(self) -> None:
        if self.pid:
            processes.kill_trees([self.pid])

    def _close(self) -> None:
        if self._reports is not None:
            self._host.close(self._reports.descriptor)
            self._reports = None
