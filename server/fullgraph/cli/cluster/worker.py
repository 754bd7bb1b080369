"""Trace files in a worker of a Dask cluster, with an engine that stays warm between them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.cli.cluster.tasks import (
    TOPIC,
    FileDigest,
    FileDigests,
    TaskAnswer,
    TraceTask,
    pack_answer,
    unpack_task,
)
from fullgraph.cli.sources import SourceFile, UnreadableFile, read_source
from fullgraph.domain.positions import text_hash
from fullgraph.engines import Engine, EngineState, EngineStatus
from fullgraph.engines.background import EngineLaunch
from fullgraph.engines.requests import AnalysisRequest
from fullgraph_engine.protocol import (
    Analyze,
    Event,
    FilesRead,
    Importing,
    TargetStarted,
    encode_line,
)

if TYPE_CHECKING:
    from distributed import Worker

IDLE = 600.0
"""Seconds without a request after which a worker stops an engine."""
SAME_FILES = "Workers need the same files at the same paths as this command."


class _Unable(Exception):
    """Raised if a worker cannot trace a file; the message says why, ``next_step`` what to do."""

    def __init__(self, reason: str, next_step: str, status: EngineStatus | None = None) -> None:
        super().__init__(reason)
        self.next_step = next_step
        self.status = status


class WarmEngine:
    """An engine that stays ready for later files, and ends ``IDLE`` seconds after the last
    request."""

    def __init__(self, launch: EngineLaunch) -> None:
        self._engine = Engine(
            Path(launch.interpreter),
            cwd=Path(launch.cwd),
            processes=launch.processes,
            allowed=launch.allowed,
        )
        self._launch = launch
        self._start: asyncio.Task[None] | None = None
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[tuple[Engine, EngineStatus]]:
        """Yield the engine and its status, after it has imported torch."""
        self._users += 1
        if self._timer is not None:
            self._timer.cancel()
        usable = False
        try:
            if self._start is None:
                self._start = asyncio.create_task(self._engine.start())
            await asyncio.shield(self._start)
            status = dataclasses.replace(await self._engine.ready(), pid=0)
            usable = status.state is EngineState.READY
            yield self._engine, status
        finally:
            self._users -= 1
            if not usable:
                # The next request starts another engine.
                self._remove()
            if not self._users:
                idle = IDLE if _ENGINES.get(self._launch) is self else 0.0
                self._timer = asyncio.get_running_loop().call_later(idle, self._close)

    def _remove(self) -> None:
        if _ENGINES.get(self._launch) is self:
            del _ENGINES[self._launch]

    def _close(self) -> None:
        self._remove()
        self._engine.kill()
        self._closing = asyncio.ensure_future(self._engine.close())


_ENGINES: dict[EngineLaunch, WarmEngine] = {}
"""Engines of this worker process."""
_RUNNING: dict[str, set[AnalysisRequest]] = {}
"""Requests on which the engines of this process are working, by the name of the check."""
_CANCELLED: set[str] = set()
"""Names of checks that ended before all of their tasks did."""
_DIGESTS = FileDigests()


async def run_task(packed: bytes, worker: Worker) -> bytes:
    """Run a task of a check, and return the packed answer with the events of the engine."""
    task = unpack_task(packed)
    events: list[Event] = []
    if task.request is not None:
        worker.log_event(TOPIC, (task.check, task.request.request, b""))
    try:
        request = _complete_request(task, worker.address)
        if not Path(task.launch.interpreter).exists():
            raise _Unable(
                f"Worker {worker.address} does not have the interpreter {task.launch.interpreter}",
                "Install Python and torch at this path on all workers, or pass an interpreter that "
                "they have with --python.",
            )
        async with _find_engine(task.launch).use() as (engine, status):
            if status.state is not EngineState.READY:
                reason = f"Worker {worker.address}: {status.message}"
                raise _Unable(reason, status.next_step, status)
            if request is not None and task.check not in _CANCELLED:
                asked = engine.analyze(request)
                events = await _collect_events(asked, task.check, request.request, worker)
    except _Unable as error:
        answer = TaskAnswer(worker.address, error.status, (), str(error), error.next_step)
        return pack_answer(answer)
    digests = _digest_files(events, request) if request is not None else ()
    return pack_answer(TaskAnswer(worker.address, status, digests), events)


def _find_engine(launch: EngineLaunch) -> WarmEngine:
    if launch not in _ENGINES:
        _ENGINES[launch] = WarmEngine(launch)
    return _ENGINES[launch]


def cancel_check(check: str) -> None:
    """Cancel all requests of a check on this worker."""
    _CANCELLED.add(check)
    for asked in _RUNNING.get(check, ()):
        asked.cancel()


def _complete_request(task: TraceTask, worker: str) -> Analyze | None:
    """Return the request of a task with the text of its file.

    Raises:
        _Unable: The worker does not have the file, or the file has other content.
    """
    request = task.request
    if request is None or task.unsaved:
        return request
    path = Path(request.path)
    try:
        text = read_source(SourceFile(request.path, path, named=True))
    except UnreadableFile as error:
        raise _Unable(f"Worker {worker} reports: {error}", SAME_FILES) from error
    if text_hash(text) != request.generation:
        raise _Unable(f"Worker {worker} has a different version of {path}", SAME_FILES)
    return dataclasses.replace(request, text=text)


async def _collect_events(
    asked: AnalysisRequest, check: str, number: int, worker: Worker
) -> list[Event]:
    """Return the events of a request, except for events that only show its progress. Publish these
    at once, with the ``number`` of the request in the check."""
    running = _RUNNING.setdefault(check, set())
    running.add(asked)
    events: list[Event] = []
    try:
        async for event in asked:
            if isinstance(event, (Importing, TargetStarted)):
                worker.log_event(TOPIC, (check, number, encode_line(event)))
            else:
                events.append(event)
    except asyncio.CancelledError:
        asked.cancel()
        raise
    finally:
        running.discard(asked)
        if not running:
            _RUNNING.pop(check, None)
    return events


def _digest_files(events: Iterable[Event], request: Analyze) -> tuple[FileDigest, ...]:
    """Return the digests of the files below the project folder that a trace has read."""
    read = {
        file.path: None
        for event in events
        if isinstance(event, FilesRead)
        for file in event.unpack_files()
        if Path(file.path).is_relative_to(request.cwd or "/")
    }
    return tuple(FileDigest(path, _DIGESTS.digest(path)) for path in read)
