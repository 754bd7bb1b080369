"""What the results of a text depend on beside the text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .packing import items_of, packed

# Bound now: user code in the engine's processes may replace the functions of `os`.
_stat = os.stat

OPEN = -2
"""In place of the time and the size of a file that is open in an editor."""


@dataclass(frozen=True)
class FileState:
    """A file or folder, its modification time in nanoseconds and its size in bytes; both are -1
    where there is nothing."""

    path: str
    modified: int
    size: int

    def holds(self) -> bool:
        """Whether it is so still; what is open in an editor is as the request has it."""
        return self.modified == OPEN or state(self.path) == self


def state(path: str) -> FileState:
    """As the file is now."""
    try:
        found = _stat(path)
    except OSError:
        return FileState(path, -1, -1)
    return FileState(path, found.st_mtime_ns, found.st_size)


@dataclass(frozen=True)
class OpenFile:
    """A file that is open in an editor: whoever imports it gets this text, and not what is on
    disk. ``path`` is absolute."""

    path: str
    text: str


@dataclass(frozen=True)
class FilesRead:
    """What the processes of a request have read, or have looked for and not found, other than what
    is installed: of that the folders. Several times per request, each time what is new."""

    request: int
    packed: str

    @classmethod
    def of(cls, request: int, files: Iterable[FileState]) -> FilesRead:
        return cls(request, packed(tuple(files)))

    def files(self) -> tuple[FileState, ...]:
        """What was packed; nothing if it is not of this form."""
        return items_of(FileState, self.packed)
