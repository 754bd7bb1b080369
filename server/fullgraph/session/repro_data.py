"""Data files with the tensors of a repro, named by a hash of their contents."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fullgraph_engine.protocol.repro import DATA, data_name


@contextmanager
def temporary_data_folder() -> Iterator[str]:
    """Yield an empty temporary folder into which the engine writes tensors; an empty name if it
    cannot be created.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="fullgraph-data-", ignore_cleanup_errors=True)
    except OSError:
        yield ""
        return
    with folder as path:
        yield path


@dataclass(frozen=True)
class ReproData:
    """The data files that a repro script loads, in the temporary folder to which the engine wrote
    them.
    """

    folder: str = ""
    names: tuple[str, ...] = ()

    def copy_to(self, parent: Path) -> str:
        """Copy the data files into a subfolder of ``parent``; return a sentence about a failure,
        empty without one.

        Files with the same contents are not written again.
        """
        folder = parent / DATA
        try:
            for name in self.names:
                folder.mkdir(exist_ok=True)
                if not _is_whole(folder / name):
                    self._copy_file(name, folder)
        except OSError as error:
            why = error.strerror or str(error)
            return (
                f"Cannot write its data to {folder} ({why}): the script uses random data instead."
            )
        return ""

    def is_beside(self, script: Path) -> bool:
        """Return whether all data files are next to the script."""
        return all((script.parent / DATA / name).is_file() for name in self.names)

    def _copy_file(self, name: str, folder: Path) -> None:
        hidden = folder / f".{name}-{secrets.token_hex(4)}.part"
        try:
            with Path(self.folder, name).open("rb") as source, hidden.open("xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                # Some file systems report a full disk only when the file is synchronized.
                os.fsync(file.fileno())
            hidden.replace(folder / name)
        finally:
            hidden.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    try:
        return data_name(path.read_bytes()) == path.name
    except OSError:
        return False
