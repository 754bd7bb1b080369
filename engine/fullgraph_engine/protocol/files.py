"""Files, other than the analyzed text itself, on which the results of the analysis depend."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .packing import pack, unpack_items

# Bound at import: user code in the engine's processes may replace functions of `os`.
_stat = os.stat

OPEN = -2
"""Value of ``modified`` and ``size`` for a file open in an editor, whose state on disk does not
matter."""


@dataclass(frozen=True)
class FileState:
    """State of a file or folder: modification time in nanoseconds, size in bytes.

    Both are -1 if the path does not exist.
    """

    path: str
    modified: int
    size: int

    def is_unchanged(self) -> bool:
        """Whether the file on disk still has this state; always true for a file open in an
        editor."""
        return self.modified == OPEN or file_state(self.path) == self


def file_state(path: str) -> FileState:
    """Return the current modification time and size of a file or folder."""
    try:
        found = _stat(path)
    except OSError:
        return FileState(path, -1, -1)
    return FileState(path, found.st_mtime_ns, found.st_size)


@dataclass(frozen=True)
class OpenFile:
    """A file open in an editor: imports in the engine read ``text`` instead of the file on disk.

    ``path`` is absolute.
    """

    path: str
    text: str


@dataclass(frozen=True)
class FilesRead:
    """Event: files that user code of a request has read, or looked for and did not find.

    The results of the request are valid until one of them changes. Of installed packages, only the
    folders are listed. The event is sent several times per request, each time with files that were
    not listed before.
    """

    request: int
    packed: str

    @classmethod
    def from_files(cls, request: int, files: Iterable[FileState]) -> FilesRead:
        return cls(request, pack(tuple(files)))

    def unpack_files(self) -> tuple[FileState, ...]:
        """Decode the files from ``packed``; empty if the text is invalid."""
        return unpack_items(FileState, self.packed)
