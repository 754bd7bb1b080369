"""An engine for ``fullgraph check`` whose requests run on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from fullgraph.cli.cluster.connection import Cluster
from fullgraph.cli.cluster.tasks import TaskAnswer, TraceTask
from fullgraph.cli.cluster.worker import SAME_FILES
from fullgraph.engines import EngineState, EngineStatus
from fullgraph.engines.background import EngineLaunch
from fullgraph.fixes.tracing import Asked
from fullgraph_engine.protocol import Analyze, Compare, Event, Failed, FilesRead
from fullgraph_engine.protocol.files import file_state


class ClusterEngine:
    """An engine that consists of one engine on each worker of a cluster.

    The texts of files in ``unsaved`` (absolute paths) are sent to the workers. A worker reads all
    other files itself; they must be equal to the files of this process.
    """

    def __init__(self, cluster: Cluster, launch: EngineLaunch, unsaved: Iterable[str] = ()) -> None:
        self._cluster = cluster
        self._launch = launch
        self._unsaved = frozenset(unsaved)
        self._status = EngineStatus(EngineState.STARTING, "The workers import torch.")

    async def start(self) -> None:
        """Do nothing: ``ready`` connects to the cluster."""

    async def ready(self) -> EngineStatus:
        """Connect to the cluster and start the engines of all workers.

        Return the status of the first engine that can trace files; if none can, the status of the
        last one.

        Raises:
            CheckEnded: The cluster cannot be used, or the connection to it was lost.
        """
        await self._cluster.connect()
        task = TraceTask(self._cluster.check, self._launch)
        workers = await self._cluster.list_workers()
        # The task waits for the first worker if none has connected yet.
        starts = [asyncio.ensure_future(self._cluster.run(task, one)) for one in workers or [""]]
        try:
            for start in asyncio.as_completed(starts):
                answer, _ = await start
                self._status = _engine_status(answer)
                if self._status.state is EngineState.READY:
                    break
        finally:
            for one in starts:
                one.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        return self._status

    def analyze(self, request: Analyze) -> Asked:
        """Return the request to trace a text; it starts when its events are read."""
        number = next(self._cluster.numbers)
        return _ClusterRequest(self, dataclasses.replace(request, request=number))

    async def close(self) -> None:
        """Do nothing: the check closes the connection, and engines of workers stay warm."""

    def kill(self) -> None:
        """Do nothing: the requests end when their readers are cancelled."""

    def compare(self, request: Compare) -> Asked:
        """Raise an error: workers do not compare texts, which only measuring needs."""
        raise NotImplementedError("Workers of a cluster do not compare texts.")

    async def trace(self, request: Analyze) -> AsyncIterator[Event]:
        """Trace a text on a worker. Yield events about its progress as they arrive, and all other
        events at the end.

        Raises:
            CheckEnded: The connection or all workers were lost.
        """
        unsaved = request.path in self._unsaved
        sent = request if unsaved else dataclasses.replace(request, text="")
        task = TraceTask(self._cluster.check, self._launch, sent, unsaved)
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        with self._cluster.watch_request(request.request, queue.put_nowait):
            run = asyncio.ensure_future(self._cluster.run(task))
            run.add_done_callback(lambda _: queue.put_nowait(None))
            try:
                while (event := await queue.get()) is not None:
                    yield event
            finally:
                run.cancel()
        answer, events = run.result()
        for event in self._accept(request.request, answer, events):
            yield event

    def _accept(self, number: int, answer: TaskAnswer, events: Sequence[Event]) -> Iterator[Event]:
        """Yield the events of a worker, or one event that says why they cannot be used."""
        problem, next_step = answer.problem, answer.next_step
        if not problem:
            problem, next_step = self._find_difference(answer)
        if problem:
            yield Failed(number, problem, next_step)
            return
        for event in events:
            if isinstance(event, FilesRead):
                # Read the state of the files here: their contents are equal, but their times may
                # differ between machines.
                read = (file_state(file.path) for file in event.unpack_files())
                yield FilesRead.from_files(number, read)
            else:
                yield event

    def _find_difference(self, answer: TaskAnswer) -> tuple[str, str]:
        """Return two sentences: how the worker differs from this process or from other workers, and
        what to do. Both are empty if it does not differ."""
        for file in answer.files:
            if self._cluster.digests.digest(file.path) != file.digest:
                has = "has a different version of" if file.digest else "does not have"
                return f"Worker {answer.worker} {has} {file.path}", SAME_FILES
        own, other = self._status, answer.status
        if other is not None and (own.torch, own.python) != (other.torch, other.python):
            return (
                f"Worker {answer.worker} has torch {other.torch} with Python {other.python}, and "
                f"another worker torch {own.torch} with Python {own.python}",
                "Use one environment for all workers.",
            )
        return "", ""


class _ClusterRequest:
    """A request to trace a text on a worker; iterate over its events."""

    def __init__(self, engine: ClusterEngine, request: Analyze) -> None:
        self._events = engine.trace(request)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def cancel(self) -> None:
        """Do nothing: the request ends when its reader is cancelled."""


def _engine_status(answer: TaskAnswer) -> EngineStatus:
    if answer.status is not None:
        return answer.status
    return EngineStatus(EngineState.UNUSABLE, answer.problem, answer.next_step)
