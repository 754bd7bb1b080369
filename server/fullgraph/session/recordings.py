"""Read the inputs that ``fullgraph record`` recorded for classes of a file, from the nearest
enclosing folder with a recording.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph_engine.protocol.recorded import (
    FILE,
    MOST_BYTES,
    Recorded,
    RecordedClass,
    Unreadable,
    parse,
)

_STABLE_AFTER = 1_000_000_000
"""Age in nanoseconds after which a file's modification time is reliable: a later write would change
it.
"""


@dataclass(frozen=True)
class FileRecording:
    """The classes of one file whose inputs were recorded; ``problem`` is a sentence if the
    recording is unusable, else empty.
    """

    classes: tuple[RecordedClass, ...] = ()
    problem: str = ""


def recording_of(name: str, project: Path | None) -> FileRecording:
    """Return the classes of a file whose inputs ``fullgraph record`` recorded; ``name`` is the path
    of the file."""
    path = Path(name)
    if not path.is_absolute():
        return FileRecording()
    for folder in _enclosing_folders(path, project):
        file = folder / FILE
        try:
            state = file.stat()
        except OSError:
            continue
        if state.st_size > MOST_BYTES:
            size = f"larger than {MOST_BYTES >> 20} MB"
            return FileRecording(
                problem=f"{file} is {size} and not used; delete it and record again."
            )
        try:
            recorded = _read_recording(
                file, state.st_mtime_ns, state.st_size, _cache_breaker(state.st_mtime_ns)
            )
        except Unreadable as error:
            return FileRecording(problem=f"{file} {error}.")
        return FileRecording(recorded.get(path.relative_to(folder).as_posix(), ()))
    return FileRecording()


def _enclosing_folders(path: Path, project: Path | None) -> Iterator[Path]:
    """Yield the folders around a file, up to the project's folder. Without a project, yield only
    the file's own folder."""
    for folder in path.parents:
        yield folder
        if project is None or folder == project or not folder.is_relative_to(project):
            return


def _cache_breaker(modified: int) -> int:
    """Return a unique number for a recently written file, else 0; it is a part of the cache key.

    File systems round modification times, so a second write may keep the time, and such a file must
    not come from the cache.
    """
    now = time.time_ns()
    return now if now - modified < _STABLE_AFTER else 0


@functools.lru_cache(maxsize=8)
def _read_recording(file: Path, _modified: int, _size: int, _cache_breaker: int) -> Recorded:
    """Parse a recording, cached by the state of its file.

    Raises:
        Unreadable: The file does not contain a recording.
    """
    try:
        return parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(
            "is not valid UTF-8; delete the file and run `fullgraph record` again"
        ) from error
