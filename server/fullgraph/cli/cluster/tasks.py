"""Messages between the command and the workers of a Dask cluster, packed as bytes."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.sources import MOST_BYTES
from fullgraph.engines import EngineStatus
from fullgraph.engines.background import EngineLaunch
from fullgraph_engine.protocol import MESSAGES, Analyze, Event, decode_one_of, encode_line
from fullgraph_engine.protocol.files import FileState, file_state

TOPIC = "fullgraph"
"""Dask topic of messages about the progress of a check. Each message is a tuple: the check, the
number of the request, and the packed event. The event is empty when a worker begins with the
request."""


@dataclass(frozen=True)
class TraceTask:
    """A request to the engine of a worker; without ``request``, the worker only starts its engine.

    ``check`` identifies the run of ``fullgraph check``.
    """

    check: str
    launch: EngineLaunch
    request: Analyze | None = None
    """Trace request without its text, because the worker reads its own file. With ``unsaved``, the
    request contains the text."""
    unsaved: bool = False


@dataclass(frozen=True)
class FileDigest:
    """A file that a trace has read on a worker, and the digest of its content there."""

    path: str
    digest: str


@dataclass(frozen=True)
class TaskAnswer:
    """The answer of a worker to a task; the events of the engine follow it.

    ``problem`` is a sentence that says why the worker cannot trace the file, empty if it can;
    ``next_step`` says what the user can do about it.
    """

    worker: str
    """Address of the worker."""
    status: EngineStatus | None = None
    files: tuple[FileDigest, ...] = ()
    problem: str = ""
    next_step: str = ""


_KINDS: dict[str, type] = {
    **MESSAGES,
    **{kind.__name__: kind for kind in (TraceTask, TaskAnswer)},
}


def pack_task(task: TraceTask) -> bytes:
    """Encode a task for a worker."""
    return zlib.compress(encode_line(task), 1)


def unpack_task(packed: bytes) -> TraceTask:
    """Decode a task; raise ProtocolError if the bytes are not a task."""
    task = decode_one_of(_KINDS, zlib.decompress(packed))
    assert isinstance(task, TraceTask)
    return task


def pack_answer(answer: TaskAnswer, events: Iterable[Event] = ()) -> bytes:
    """Encode the answer of a worker and the events of its engine."""
    return zlib.compress(b"".join(map(encode_line, (answer, *events))), 1)


def unpack_answer(packed: bytes) -> tuple[TaskAnswer, Sequence[Event]]:
    """Decode the answer of a worker and the events of its engine; raise ProtocolError if the bytes
    are not an answer.
    """
    answer, *events = (decode_one_of(_KINDS, one) for one in zlib.decompress(packed).splitlines())
    assert isinstance(answer, TaskAnswer)
    return answer, events


def unpack_event(packed: bytes) -> Event:
    """Decode one event of an engine; raise ProtocolError if the bytes are not an event."""
    return decode_one_of(MESSAGES, packed)  # type: ignore[no-any-return]


class FileDigests:
    """Digests of the contents of files, each computed again only after the file has changed."""

    def __init__(self) -> None:
        self._known: dict[FileState, str] = {}

    def digest(self, path: str) -> str:
        """Return the digest of the file at ``path``; empty if the file does not exist.

        The digest of a file larger than ``MOST_BYTES`` only contains its size.
        """
        state = file_state(path)
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = _compute_digest(state)
        return known


def _compute_digest(state: FileState) -> str:
    path = Path(state.path)
    if state.size > MOST_BYTES:
        return f"{state.size} bytes"
    try:
        if path.is_dir():
            # For a folder, only its existence is compared; files that the trace has read in it have
            # their own digests.
            return "folder"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""
