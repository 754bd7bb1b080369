"""Files that the results of traces depend on."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from fullgraph_engine.protocol import Event, FilesRead, Restarted
from fullgraph_engine.protocol.files import OPEN, FileState


class FilesRecorder:
    """A recorder of the files that one run read, or looked for and did not find.

    The run's results depend on these files. ``before``: recorders of earlier runs, some of whose
    results the run reuses.
    """

    def __init__(self, before: Iterable[FilesRecorder] = ()) -> None:
        self._began = time.time_ns()
        self._files: dict[str, FileState] = {}
        self._reported = False
        self._same = True
        """False after two events of the run reported different states of the same file."""
        for one in before:
            self._files.update(one._files)
            self._reported = self._reported or one._reported
            self._same = self._same and one._same

    @classmethod
    def from_states(cls, states: Iterable[FileState] | None) -> FilesRecorder:
        """Return a recorder with files that an earlier run read, in the given states; without
        states, their files count as unknown.
        """
        recorder = cls()
        recorder._reported = states is not None
        recorder._files = {file.path: file for file in states or ()}
        return recorder

    def copy(self) -> FilesRecorder:
        """Return a copy that further events do not change."""
        copy = FilesRecorder([self])
        copy._began = self._began
        return copy

    def record_event(self, event: Event) -> None:
        if isinstance(event, Restarted):
            self._same = True
        elif isinstance(event, FilesRead):
            self._reported = True
            for file in event.unpack_files():
                self._same = self._same and self._files.setdefault(file.path, file) == file

    @property
    def states(self) -> tuple[FileState, ...] | None:
        """States of the files when they were read; None if the engine did not report them."""
        return tuple(self._files.values()) if self._reported else None

    @property
    def reads(self) -> frozenset[str] | None:
        """Paths of the files; None if the engine did not report them."""
        return frozenset(self._files) if self._reported else None

    def is_current(self) -> bool:
        """Return whether all files are unchanged."""
        return all(file.is_unchanged() for file in self._files.values())

    @property
    def is_lasting(self) -> bool:
        """Whether a later session can use the states: no file changed during the run, and each was
        on disk.

        The text of an unsaved file is lost when the editor closes it.
        """
        states = [file.modified for file in self._files.values()]
        return self._same and not any(one >= self._began or one == OPEN for one in states)


def is_on_disk(path: Path, text: str) -> bool:
    """Return whether the file on disk contains exactly this text in UTF-8."""
    encoded = text.encode("utf-8", "surrogatepass")
    try:
        return path.stat().st_size == len(encoded) and (
            # An empty file may be a pipe, and reading it would block.
            not encoded or path.read_bytes() == encoded
        )
    except OSError:
        return False
