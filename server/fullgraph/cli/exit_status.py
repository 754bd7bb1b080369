"""Exit statuses of the commands."""

CLEAN = 0
"""Nothing was found that the user has to look at."""
FOUND = 1
"""Something was found, or what the user named does not exist."""
UNABLE = 2
"""The arguments are wrong, or fullgraph could not do its work."""
INTERRUPTED = 130
"""Ctrl-C ended the command; shells report the same status."""
BROKEN_PIPE = 141
"""The reader of the output closed the pipe; shells report the same status."""


class Interrupted(Exception):
    """Raised if SIGINT or SIGTERM cancelled a command.

    ``status`` is the exit status that shells expect: 128 plus the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.status = 128 + number
