"""An enclosing run, as the engine's main process sees it: a run that executes the callers of
several targets once.

At each call of a target, it forks a copy of the process (a snapshot), from which the target's run
continues. ``snapshots`` has the code that executes in these processes.
"""

from __future__ import annotations

from collections import deque

from ..protocol import Event
from .owned_process import OwnedProcess, ProcessEnd
from .process_backends import EnclosingProcess, processes
from .tasks import EnclosingKey
from .wire import ChildExited, ChildForked, ForkFailed, SnapshotTaken, Upward


class EnclosingRun(OwnedProcess):
    """An enclosing run and its snapshots.

    ``watched.pid`` is the process that currently executes the callers; 0 after it has ended.
    """

    process: EnclosingProcess
    """The process that starts the runs from the snapshots; set when it was started."""

    def __init__(
        self, ends: deque[ProcessEnd], number: int, key: EnclosingKey, *, nice: bool
    ) -> None:
        super().__init__(ends)
        self.number, self.key = number, key
        self._nice = nice
        self.first_pid = 0
        """Pid of the first process of the enclosing run. When it ends, the system ends all
        snapshots too."""
        self.left = 0
        """Number of processes that stopped at a call and remain as snapshots."""
        self._settled = 0
        """Number of snapshots that have reported the target at whose call they stopped."""
        self._ended = False
        self.over = False
        """True if the run has stopped taking snapshots, because it has ended or was interrupted."""

    @property
    def is_complete(self) -> bool:
        """Whether the callers were executed to the end and all snapshots are known."""
        return self._ended and self._settled == self.left

    @property
    def was_interrupted(self) -> bool:
        """Whether the engine has interrupted the callers, which may still have snapshots."""
        return self.watched.cause is not None and not self.over

    def set_pid(self, pid: int) -> None:
        """Record the pid of the first process. That process may already have become a snapshot,
        with another one executing the callers."""
        self.first_pid = pid
        if not self.left:
            self._set_current(pid)

    def handle_refusal(self, error: int) -> None:
        """Treat the run as ended, so that its targets are traced without it."""
        self.handle_end(None)

    def take_message(self, message: Upward | Event | None) -> SnapshotTaken | None:
        """Update the state from a message of the run's processes, and return the message if it
        describes a snapshot."""
        if isinstance(message, SnapshotTaken):
            self._settled += 1
            return message
        if isinstance(message, (ForkFailed, ChildForked, ChildExited)):
            if isinstance(message, ForkFailed) or message.number != self.number:
                self.process.handle_message(message)
            elif isinstance(message, ChildForked):
                self.left += 1
                self.first_pid = self.first_pid or self.watched.pid
                self._set_current(message.pid)
            else:
                self._ended = True
                self._forget_current()
        return None

    def stop_recording(self) -> None:
        """Record that the run has stopped taking snapshots, and remove its deadline."""
        self.over, self.watched.deadline = True, float("inf")

    def lose_snapshots(self) -> None:
        """Record that all processes of the run have ended."""
        self._forget_current()
        self.first_pid = 0

    def _set_current(self, pid: int) -> None:
        self.watched.pid = pid
        if self._nice:
            processes.give_way(pid)

    def _forget_current(self) -> None:
        self.watched.pid, self.watched.kill_at = 0, float("inf")
