"""Store results on disk: one file per text and request, with the latest results only."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.positions import text_hash
from fullgraph.engines import EngineStatus
from fullgraph.kept.basis import EngineBasis, request_digest
from fullgraph.kept.results import KEPT, KeptResults
from fullgraph_engine.protocol import Analyze, Event, decode, encode, from_plain, to_plain
from fullgraph_engine.protocol.files import FileState

_FORMAT = 2
_SUFFIX = ".results"
_MOST_BYTES = 256 << 20
_LARGEST = 16 << 20
"""Maximum number of bytes of one file of results before compression."""
_EVERY = 64
"""Number of files that a store writes between two checks of the total size of all stored
results.
"""


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


def any_results(env: Mapping[str, str] | None = None) -> bool:
    """Return whether the folder contains any stored results."""
    try:
        with os.scandir(results_folder(env)) as entries:
            return any(entry.name.endswith(_SUFFIX) for entry in entries)
    except (OSError, RuntimeError):
        return False


@dataclass(frozen=True)
class _Header:
    """The first line of a file, which identifies its results."""

    version: int
    text: str
    status: EngineStatus
    files: tuple[FileState, ...]


class ResultStore:
    """A store of results in a folder that several processes use at the same time.

    Incomplete, outdated or incompatible files are ignored, and failed writes are not reported.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._written = 0
        self._keeping = threading.Lock()

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = results_folder()
        return self._folder

    def find(self, engine: EngineBasis, request: Analyze) -> KeptResults | None:
        """Return the stored results of a request, complete or partial; None if there are none or if
        anything that they depend on has changed.
        """
        try:
            path = self._file_path(engine, request)
            header, events = _unpack_results(path.read_bytes())
        except (OSError, RuntimeError, ValueError, zlib.error):
            return None
        if header.version != _FORMAT or header.text != text_hash(request.text):
            return None
        if not all(file.is_unchanged() for file in header.files):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the least recently used files are removed first
        return KeptResults(header.status, events, header.files)

    def keep(self, engine: EngineBasis, request: Analyze, results: KeptResults) -> None:
        """Write results to disk. They replace results of an earlier text, but not results of the
        same text that contain more.
        """
        with self._keeping:
            known = None if results.is_whole else self.find(engine, request)
            has_more = known is not None and len(known.events) >= len(results.events)
            if known is None or not (known.is_whole or has_more):
                self._write_file(engine, request, results)

    def _write_file(self, engine: EngineBasis, request: Analyze, results: KeptResults) -> None:
        header = _Header(_FORMAT, text_hash(request.text), results.status, results.files)
        packed = _pack_results(header, results.events)
        if packed is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            path = self._file_path(engine, request)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=path.parent, prefix=path.stem, suffix=".unfinished", delete=False
            ) as file:
                file.write(packed)
            Path(file.name).replace(path)
            self._written += 1
            if self._written % _EVERY == 1:
                self._prune_folder()

    def _file_path(self, engine: EngineBasis, request: Analyze) -> Path:
        return self.folder / (request_digest(engine, request)[:40] + _SUFFIX)

    def _prune_folder(self) -> None:
        """Remove the least recently used files until the total size is below the limit."""
        found = []
        for entry in os.scandir(self.folder):
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


@dataclass(frozen=True)
class EngineStore:
    """The stored results of one engine: finds and stores results in a store with this engine as the
    argument.
    """

    store: ResultStore
    engine: EngineBasis

    def find(self, request: Analyze) -> KeptResults | None:
        return self.store.find(self.engine, request)

    def keep(self, request: Analyze, results: KeptResults | None) -> None:
        if results is not None:
            self.store.keep(self.engine, request, results)


def _pack_results(header: _Header, events: tuple[Event, ...]) -> bytes | None:
    first = json.dumps(to_plain(header)).encode() + b"\n"
    body = first + b"".join(encode(event) for event in events)
    if len(body) > _LARGEST:
        return None
    return hashlib.sha256(body).digest() + zlib.compress(body, 1)


def _unpack_results(data: bytes) -> tuple[_Header, tuple[Event, ...]]:
    """Decode the contents of a file into its header and events; raise ValueError or zlib.error if
    it is damaged.
    """
    reader = zlib.decompressobj()
    body = reader.decompress(data[32:], _LARGEST)
    if not reader.eof or hashlib.sha256(body).digest() != data[:32]:
        raise ValueError("the file is not whole")
    first, *lines = body.splitlines()
    try:
        header = from_plain(_Header, json.loads(first))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(str(error)) from error
    events = tuple(event for line in lines if isinstance(event := decode(line), KEPT))
    if len(events) != len(lines):
        raise ValueError("other messages are among them")
    return header, events
