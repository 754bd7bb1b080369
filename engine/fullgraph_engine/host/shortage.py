"""When the system has no room for another process: what that looks like, and what is done then."""

from __future__ import annotations

import errno
import os

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})

WAIT = 0.5
"""Seconds until something that there was no room for is tried again."""

PATIENCE = 20.0
"""Seconds for which it is tried while nothing else goes on whose end would make room."""


def is_short(error: OSError) -> bool:
    """Whether there may be room later: no descriptor, process or memory was to be had."""
    return error.errno in _SHORT


def words(error: OSError) -> str:
    """What there was too little of, without a full stop."""
    return error.strerror or os.strerror(error.errno or 0) or str(error)
