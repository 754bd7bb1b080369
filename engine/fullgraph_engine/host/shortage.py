"""Detect a shortage of processes, memory or descriptors when a process is started, and set how long
to retry."""

from __future__ import annotations

import errno
import os

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})

WAIT = 0.5
"""Number of seconds between two attempts to start a process during a shortage."""

PATIENCE = 20.0
"""Maximum seconds of repeated attempts, unless a running process may soon free resources."""


def is_short(error: OSError) -> bool:
    """Whether an error is a temporary shortage of descriptors, processes or memory."""
    return error.errno in _SHORT


def shortage_words(error: OSError) -> str:
    """Describe for the user what the system lacked, without a full stop."""
    return error.strerror or os.strerror(error.errno or 0) or str(error)
