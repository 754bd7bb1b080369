"""The folder in which results are stored."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

SUFFIX = ".results"
_MOST_BYTES = 256 << 20


def results_folder(env: Mapping[str, str] | None = None) -> Path:
    """Return the folder in which results are stored: a subfolder of the system's folder for caches.

    Raises:
        RuntimeError: The user does not have a home folder.
    """
    env = os.environ if env is None else env
    given = env.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # noqa: PTH117 - the specification says to ignore others
        base = Path(given)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "fullgraph" / "results"


def any_results() -> bool:
    """Return whether any results are stored on this machine for the user."""
    try:
        with os.scandir(results_folder()) as entries:
            return any(entry.name.endswith(SUFFIX) for entry in entries)
    except (OSError, RuntimeError):
        return False


def prune_folder(folder: Path) -> None:
    """Remove the least recently used results files until their total size is below the limit."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            state = entry.stat()
            found.append((state.st_mtime, state.st_size, entry.path))
    left = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if left <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            Path(path).unlink()
        left -= size
