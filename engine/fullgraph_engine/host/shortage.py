"""Detect a shortage of processes, memory or descriptors, and set how long to retry."""

from __future__ import annotations

import errno
import os

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})

WAIT = 0.5
"""Number of seconds between two attempts during a shortage."""

PATIENCE = 20.0
"""Maximum seconds of retries while no running process could free resources."""


def is_short(error: OSError) -> bool:
    """Whether an error is a temporary shortage of descriptors, processes or memory."""
    return error.errno in _SHORT


def shortage_words(error: OSError) -> str:
    """Describe what the system lacked, without a full stop."""
    return error.strerror or os.strerror(error.errno or 0) or str(error)
