"""Names of the temporary folders of engines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "fullgraph-engine-"


def scratch_prefix(pid: int) -> str:
    """Return the beginning of the name of the temporary folder of the engine with this pid."""
    return f"{_PREFIX}{pid}-"


def find_scratch() -> Iterator[tuple[int, Path]]:
    """Yield the temporary folders of all engines, each after the pid of its engine."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit():
            yield int(owner), folder


def remove_scratch(pid: int) -> None:
    """Remove the temporary folder of an engine that was killed before it could remove it."""
    for owner, folder in find_scratch():
        if owner == pid:
            shutil.rmtree(folder, ignore_errors=True)
