"""Detect a shortage of processes, memory or descriptors when a process is started, and set how long
to retry."""

from __future__ import annotations

import errno
import os

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})

_WAIT = 0.5
"""Number of seconds between two attempts to start a process while resources are short."""

_PATIENCE = 20.0
"""Maximum seconds of attempts to start a process while resources are short, unless a running
process may soon free some."""


def is_short(error: OSError) -> bool:
    """Whether an error is a temporary shortage of descriptors, processes or memory."""
    return error.errno in _SHORT


def shortage_words(error: OSError) -> str:
    """Return a clause for the user on what the system lacked when a process could not be
    started."""
    return error.strerror or os.strerror(error.errno or 0) or str(error)


class Shortage:
    """A shortage of resources for new processes, and the time of the next attempt to start one."""

    def __init__(self) -> None:
        self.retry_at = float("inf")
        """Time of the next attempt to start a process, on the clock of the ``now`` arguments;
        infinite if none is scheduled."""
        self._since = 0.0
        """Time at which a process start first failed; 0 if the last start succeeded."""

    def begin(self, now: float) -> bool:
        """Record that a process start failed at time ``now``. Return whether the previous one
        succeeded."""
        is_new = not self._since
        self._since = self._since or now
        return is_new

    def may_wait(self, now: float, *, made_room: bool, active: bool) -> bool:
        """Schedule another attempt to start a process; return False if the shortage has lasted too
        long to wait.

        ``made_room``: the engine has ended an idle process, so the next attempt is made at once.
        ``active``: a process is running whose end may free resources, so waiting is always allowed.
        """
        self.retry_at = now if made_room else now + _WAIT
        if made_room or active or now - self._since < _PATIENCE:
            return True
        self.retry_at = float("inf")
        return False

    def end(self) -> None:
        """Record that the shortage of processes is over, because one was started."""
        self._since = 0.0

    def retry(self) -> None:
        """Record that the scheduled attempt to start a process is made now."""
        self.retry_at = float("inf")
