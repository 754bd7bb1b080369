"""Exit statuses of the commands."""

from __future__ import annotations

import signal

CLEAN = 0
"""Exit status if nothing was found that the user has to look at."""
FOUND = 1
"""Exit status if something was found, or if the file, name or code that the user named does not
exist.
"""
UNABLE = 2
"""Exit status if the arguments are wrong, or fullgraph could not do its work."""
DEFECT = 101
"""Exit status after an unexpected exception of fullgraph itself."""
INTERRUPTED = 130
"""Exit status if Ctrl-C ended the command, as in shells."""
BROKEN_PIPE = 141
"""Exit status if the reader of the output closed the pipe, as in shells."""


class Interrupted(Exception):
    """Raised if SIGINT or SIGTERM cancelled a command.

    ``status`` is the exit status that shells expect: 128 plus the number of the signal.
    ``signal_name`` is the name of the signal, such as ``SIGTERM``.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.status = 128 + number
        self.signal_name = signal.Signals(number).name
