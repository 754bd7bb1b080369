"""The folders whose code a user trusts, for editors that do not manage trust themselves.

The list is stored in the user's configuration, one folder per line, so that a workspace cannot add
itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path


def trusted_folders_file(env: Mapping[str, str]) -> Path:
    """Return the path of the file with the list of trusted folders; the file may not exist."""
    home = env.get("XDG_CONFIG_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()  # noqa: PTH117
    return base / "fullgraph" / "trusted-folders"


class TrustedFolders:
    """The list of trusted folders, read each time because other editors write it as well."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def contains_all(self, folders: Iterable[Path | None]) -> bool:
        """Return whether all of the folders are trusted: in the list or inside a listed folder.
        False without folders, or if one is None.
        """
        wanted = [_resolve_folder(folder) if folder is not None else None for folder in folders]
        known = self._read_folders()
        return bool(wanted) and all(
            folder is not None and any(folder.is_relative_to(one) for one in known)
            for folder in wanted
        )

    def add(self, folders: Iterable[Path]) -> None:
        """Add folders to the list of trusted folders.

        Raises:
            OSError: The list cannot be written.
        """
        known = self._read_folders()
        self._write_folders(
            [
                *known,
                *(_resolve_folder(one) for one in folders if _resolve_folder(one) not in known),
            ]
        )

    def remove(self, folders: Iterable[Path]) -> None:
        """Remove folders, and all folders inside them, from the list of trusted folders.

        Raises:
            OSError: The list cannot be written.
        """
        gone = [_resolve_folder(folder) for folder in folders]
        known = self._read_folders()
        kept = [one for one in known if not any(one.is_relative_to(folder) for folder in gone)]
        if kept != known:
            self._write_folders(kept)

    def _read_folders(self) -> list[Path]:
        try:
            lines = self._file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        return [Path(line) for line in lines if os.path.isabs(line)]  # noqa: PTH117

    def _write_folders(self, folders: list[Path]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        fresh.write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")
        try:
            fresh.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise


def _resolve_folder(folder: Path) -> Path:
    return folder.resolve()
