"""An enclosing run, as the engine's main process sees it.

An enclosing run is a process that executes callers of several targets once. At each call of a
target, it forks a copy of itself (a snapshot), from which the run that traces this call is forked.
``snapshots`` has the code that executes in these processes.
"""

from __future__ import annotations

from collections import deque

from ..protocol import Event
from .owned_process import OwnedProcess, ProcessEnd
from .process_backends import EnclosingProcess, processes
from .tasks import EnclosingKey
from .wire import CallersEnded, ChildExited, ChildForked, ForkFailed, SnapshotTaken, Upward


class EnclosingRun(OwnedProcess):
    """A process that executes callers of targets, and the copies of itself (snapshots) that it
    forked at calls of targets.

    ``watched.pid`` is the process that currently executes the callers; 0 after it has ended.
    """

    process: EnclosingProcess
    """Process that forks runs from the waiting copies of this run (snapshots) on command; set when
    it was started."""

    def __init__(
        self, ends: deque[ProcessEnd], number: int, key: EnclosingKey, *, nice: bool
    ) -> None:
        super().__init__(ends)
        self.number, self.key = number, key
        self._nice = nice
        self.first_pid = 0
        """Pid of the process in which the run began. When it ends, the system also ends all copies
        (snapshots) that wait at calls."""
        self.left = 0
        """Number of copies of the process (snapshots) that wait at a call of a target."""
        self._settled = 0
        """Number of snapshots (waiting copies of the process) with a reported call."""
        self._ended = False
        self.over = False
        """True if no more copies (snapshots) are forked at calls, because the run has ended or was
        interrupted."""

    @property
    def is_complete(self) -> bool:
        """Whether the callers were executed to the end, and every waiting copy (snapshot) has
        reported its call."""
        return self._ended and self._settled == self.left

    @property
    def was_interrupted(self) -> bool:
        """Whether the engine has interrupted the callers.

        Copies of the process that wait at calls (snapshots) may still exist.
        """
        return self.watched.cause is not None and not self.over

    def set_pid(self, pid: int) -> None:
        """Record the pid of the first process of the run.

        The first process may already be a snapshot, which waits at a call. In that case, a process
        forked from it executes the callers.
        """
        self.first_pid = pid
        if not self.left:
            self._set_current(pid)

    def handle_refusal(self, error: int) -> None:
        """Record that the process could not be forked, for the errno ``error``.

        The targets of the run are then traced in separate runs.
        """
        self.handle_end(None)

    def take_message(self, message: Upward | Event | None) -> SnapshotTaken | CallersEnded | None:
        """Update the state from a message of the run's processes.

        Return the message if it announces that a copy of the process (a snapshot) waits at a call,
        or that the callers were executed to their end; else None.
        """
        if isinstance(message, SnapshotTaken):
            self._settled += 1
            return message
        if isinstance(message, CallersEnded):
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
        """Record that no more copies of the process (snapshots) will be forked at calls, and remove
        the deadline of the run."""
        self.over, self.watched.deadline = True, float("inf")

    def lose_snapshots(self) -> None:
        """Record that all processes of the run have ended, including the copies that waited at
        calls (snapshots)."""
        self._forget_current()
        self.first_pid = 0

    def _set_current(self, pid: int) -> None:
        self.watched.pid = pid
        if self._nice:
            processes.give_way(pid)

    def _forget_current(self) -> None:
        self.watched.pid, self.watched.kill_at = 0, float("inf")
