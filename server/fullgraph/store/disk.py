"""Store results of traces on disk. There is a file for each trace request, not counting its text.
It has the results for the latest text only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines import EngineStatus
from fullgraph.results.file_results import STORED, Results
from fullgraph.store.files import FilesRecorder
from fullgraph.store.folder import SUFFIX, prune_folder, results_folder
from fullgraph.store.keys import request_key
from fullgraph.store.runs import StoredRun, TraceBasis
from fullgraph_engine.protocol import Allowed, Analyze, Event, decode, encode, from_plain, to_plain
from fullgraph_engine.protocol.files import FileState

_FORMAT = 5
_LARGEST = 16 << 20
"""Maximum number of bytes of one file of results before compression."""
_EVERY = 64
"""Number of files written between two checks of the total size of all stored results."""
_WRITTEN = itertools.count()
_WRITING = threading.Lock()


@dataclass(frozen=True)
class _Header:
    """The first line of a results file: everything about a run except the events that contain its
    results.
    """

    version: int
    text: str
    is_complete: bool
    is_interrupted: bool
    time_limit: float
    status: EngineStatus
    files: tuple[FileState, ...] | None


@dataclass(frozen=True)
class ResultFile:
    """The file on disk with the latest results for one request key (a hash of all inputs except the
    text).

    Several processes use the file at the same time. Incomplete and incompatible files are ignored,
    and failed writes are not reported.
    """

    path: Path
    has_forecasts: bool = False
    """True if the request includes forecasts of recompiles."""

    @classmethod
    def of_request(
        cls,
        interpreter: Path,
        allowed: Allowed,
        processes: str,
        request: Analyze,
        env: Mapping[str, str] | None = None,
    ) -> ResultFile | None:
        """Return the file for the results of a trace request; None if the user does not have a home
        folder.

        ``interpreter``, the permissions ``allowed`` and ``processes`` (how processes are started)
        are the parameters of the engine. ``env`` replaces the environment variables.
        """
        try:
            folder = results_folder(env)
        except RuntimeError:
            return None
        key = request_key(interpreter, allowed, processes, request, env)
        return cls(folder / (key + SUFFIX), "forecast" in request.parts)

    def read(self, settings: object = (), *, time_limit: float | None = None) -> StoredRun | None:
        """Return the stored run; None if there is none, or if a file that its results depend on has
        changed.

        ``settings`` become the settings of the returned run. ``time_limit`` is the limit in seconds
        that a new run would have for the whole file. Targets that reached a time limit are left out
        if it is longer than the limit of the stored run, or None.
        """
        try:
            header, events = _unpack_results(self.path.read_bytes())
        except (OSError, ValueError, zlib.error):
            return None
        if header.version != _FORMAT:
            return None
        files = FilesRecorder.from_states(header.files)
        if not files.is_current():
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path)  # the least recently used files are removed first
        basis = TraceBasis(header.text, (), settings, ())
        results = Results.from_events(events)
        run = StoredRun(
            basis,
            results,
            files,
            header.status,
            header.is_complete,
            header.is_interrupted,
            header.time_limit,
        )
        has_more_time = time_limit is None or time_limit > header.time_limit
        return run.drop_over_limit() if has_more_time else run

    def write(self, run: StoredRun) -> None:
        """Write the results of a run to disk, unless they depend on something temporary.

        They replace results of an earlier text, but not more complete results of the same text.
        """
        if not run.is_lasting:
            return
        with _WRITING, contextlib.suppress(OSError):
            known = None if run.is_complete else self.read(time_limit=0.0)
            if known is not None and known.has_all_of(run):
                return
            text, files = run.basis.text, run.files.states
            header = _Header(
                _FORMAT,
                text,
                run.is_complete,
                run.is_interrupted,
                run.time_limit,
                run.status,
                files,
            )
            packed = _pack_results(header, run.results.list_events(forecasts=self.has_forecasts))
            if packed is None:
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=self.path.parent, prefix=self.path.stem, suffix=".unfinished", delete=False
            ) as file:
                file.write(packed)
            Path(file.name).replace(self.path)
            if next(_WRITTEN) % _EVERY == 0:
                prune_folder(self.path.parent)


def _pack_results(header: _Header, events: Sequence[Event]) -> bytes | None:
    first = json.dumps(to_plain(header)).encode() + b"\n"
    body = first + b"".join(encode(event) for event in events)
    if len(body) > _LARGEST:
        return None
    return zlib.compress(body, 1)


def _unpack_results(data: bytes) -> tuple[_Header, tuple[Event, ...]]:
    """Decode the contents of a file into its header and events; raise ValueError or zlib.error if
    it is damaged.
    """
    reader = zlib.decompressobj()
    body = reader.decompress(data, _LARGEST)
    if not reader.eof:
        raise ValueError("the file is incomplete")
    first, *lines = body.splitlines()
    try:
        header = from_plain(_Header, json.loads(first))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(str(error)) from error
    events = tuple(event for line in lines if isinstance(event := decode(line), STORED))
    if len(events) != len(lines):
        raise ValueError("the stored messages include unexpected ones")
    return header, events
