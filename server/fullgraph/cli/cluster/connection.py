"""The connection of ``fullgraph check --scheduler`` to the scheduler of a Dask cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fullgraph import __version__
from fullgraph.cli.check import CheckEnded
from fullgraph.cli.cluster.tasks import (
    TOPIC,
    FileDigests,
    TaskAnswer,
    TraceTask,
    pack_task,
    unpack_answer,
    unpack_event,
)
from fullgraph.domain.phrases import amount, seconds
from fullgraph_engine.protocol import Event

if TYPE_CHECKING:
    from distributed import Client

_T = TypeVar("_T")

WAIT_FOR_WORKERS = 60.0
"""Seconds without any worker, or without an answer of the scheduler, after which a check ends."""
_LOOK = 2.0
"""Interval in seconds at which the command requests the list of workers."""
_SUBMISSIONS = 4
"""Maximum number of times that a task is submitted. It is submitted again if workers were lost that
had not started it."""
_CANCEL = 5.0
"""Maximum seconds to wait until the workers have received the message that the check has ended."""
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application")


class _WorkerLost(Exception):
    """The worker on which a task should run is not part of the cluster any more."""


class Cluster:
    """A Dask cluster that traces files for one check. It connects to the scheduler for the first
    file.

    After ``patience`` seconds without any worker, all tasks end with an error.
    """

    def __init__(self, address: str, *, patience: float = WAIT_FOR_WORKERS) -> None:
        self.address = address
        self.check = uuid.uuid4().hex
        """Name of this check in the messages to the workers."""
        self.digests = FileDigests()
        """Digests of files on this machine, to compare with the digests of the workers."""
        self._patience = patience
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self.numbers = itertools.count(1)
        """Counter that numbers the requests of the check, from 1."""
        self._keys = itertools.count()
        self._starts: Counter[int] = Counter()
        """Number of times that workers have begun with each request."""
        self._has_abandoned = False
        """True after the command gave up a task on which a worker may still work."""
        self._watchers: dict[int, Callable[[Event], None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._losses: dict[str, asyncio.Future[None]] = {}
        """Futures by the address of a worker; the loss of the worker completes its future."""
        self._lost = f"The connection to the Dask scheduler at {address} was lost"
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Future with a clause for the user on why the cluster cannot finish any task."""

    async def connect(self) -> None:
        """Connect to the scheduler, unless this was done before.

        Raises:
            CheckEnded: The scheduler cannot be reached, or has another version of Dask.
        """
        async with self._connecting:
            if self._watch is not None:
                return
            from distributed import Client

            for name in _LOGGERS:
                # Silence Dask's log: the check's report says in one sentence why the connection
                # ended.
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            try:
                self._client = Client(self.address, asynchronous=True, set_as_default=False)
                await _complete(self._client)
                # A scheduler that hangs still accepts connections, so request the versions too.
                versions = await asyncio.wait_for(
                    _complete(cast("Any", self._client).get_versions()), self._patience
                )
            except (OSError, ValueError, asyncio.TimeoutError) as error:
                raise CheckEnded(
                    f"Cannot reach a Dask scheduler at {self.address} (start one with "
                    "`dask scheduler`, or correct --scheduler)"
                ) from error
            _check_versions(self.address, versions)
            self._client.subscribe_topic(TOPIC, self._handle_progress)
            self._watch = asyncio.create_task(self._watch_workers())

    async def list_workers(self) -> Sequence[str]:
        """Return the addresses of the workers that the cluster has now.

        Raises:
            CheckEnded: The connection was lost.
        """
        scheduler = self._client.scheduler if self._client is not None else None
        if scheduler is None:
            raise CheckEnded(self._lost)
        try:
            return sorted(await _complete(scheduler.ncores()))
        except OSError as error:
            raise CheckEnded(self._lost) from error

    async def run(self, task: TraceTask, worker: str = "") -> tuple[TaskAnswer, Sequence[Event]]:
        """Run a task on any worker, or on the one with the address ``worker`` while it exists.

        Return its answer, and the events of the engine. If the worker is lost, the task runs on
        another one. After the number of lost workers in the scheduler's setting
        ``allowed-failures``, the answer is an error.

        Raises:
            CheckEnded: The connection or all workers were lost.
        """
        from distributed.scheduler import KilledWorker

        number = task.request.request if task.request is not None else 0
        lost = 0
        for _ in range(_SUBMISSIONS):
            try:
                return await self._submit(task, worker)
            except _WorkerLost:
                worker = ""
            except KilledWorker as error:
                lost += error.allowed_failures + 1
                # Dask also counts lost workers that had not started the task. Give up if at least
                # half of the counted workers reported a start; other reports may be lost with their
                # workers.
                if 2 * self._starts[number] > error.allowed_failures:
                    break
            except CheckEnded:
                raise
            except Exception as error:
                return _problem(
                    "",
                    f"A worker failed with {type(error).__name__}: {error}",
                    "Look at the logs of the workers and install the same packages on all of them.",
                )
        return _problem(
            "",
            f"{amount(lost, 'worker')} ended while tracing the file",
            "Look at the logs of the workers; their memory may be too small.",
        )

    async def _submit(self, task: TraceTask, worker: str) -> tuple[TaskAnswer, Sequence[Event]]:
        """Submit a task once, and return its answer and the events of the engine.

        Raises:
            CheckEnded: The connection or all workers were lost.
            KilledWorker: The scheduler does not try the task again, because workers were lost.
            _WorkerLost: ``worker`` was lost.
        """
        from distributed.comm.core import CommClosedError

        if self._client is None or self._client.status != "running":
            raise CheckEnded(self._lost)
        future = self._client.submit(
            _worker_function(),
            __version__,
            pack_task(task),
            key=f"fullgraph-{self.check}-{next(self._keys)}",
            workers=[worker] if worker else None,
            pure=False,
        )
        result = asyncio.ensure_future(future)
        ends: list[asyncio.Future[Any]] = [result, self._ended]
        if worker:
            # Dask's `allow_other_workers` is not enough: if all workers are lost, the task waits
            # for this one, even if others connect later.
            loop = asyncio.get_running_loop()
            ends.append(self._losses.setdefault(worker, loop.create_future()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done() and not result.done():
                raise CheckEnded(self._ended.result())
            if not result.done():
                raise _WorkerLost
            if result.cancelled():
                raise CheckEnded(self._lost)
            return _parse_answer(*result.result())
        except (concurrent.futures.CancelledError, CommClosedError) as error:
            raise CheckEnded(self._lost) from error
        finally:
            self._has_abandoned = self._has_abandoned or not result.done()
            result.cancel()
            # The scheduler forgets a task that no client waits for.
            future.release()

    @contextlib.contextmanager
    def watch_request(self, number: int, watch: Callable[[Event], None]) -> Iterator[None]:
        """Call ``watch`` with the progress events of the request ``number`` until the end of the
        ``with`` block."""
        self._watchers[number] = watch
        try:
            yield
        finally:
            del self._watchers[number]

    async def close(self) -> None:
        """Cancel the requests that the workers still work on, and close the connection."""
        if self._watch is not None:
            self._watch.cancel()
        client, self._client = self._client, None
        if client is None:
            return
        with contextlib.suppress(Exception):
            if client.status == "running" and self._has_abandoned:
                await asyncio.wait_for(self._cancel(client), _CANCEL)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.close(timeout=_CANCEL), 2 * _CANCEL)

    async def _cancel(self, client: Client) -> None:
        from fullgraph.cli.cluster.worker import cancel_check

        await client.run(cancel_check, self.check, on_error="ignore")

    def _handle_progress(self, stamped: tuple[float, tuple[str, int, bytes]]) -> None:
        check, number, packed = stamped[1]
        if check != self.check:
            return
        if not packed:
            self._starts[number] += 1
        elif number in self._watchers:
            self._watchers[number](unpack_event(packed))

    async def _watch_workers(self) -> None:
        """Complete the futures of lost workers. End all tasks after ``patience`` seconds without a
        worker, or without an answer of the scheduler.
        """
        loop = asyncio.get_running_loop()
        last_seen = loop.time()
        waited = seconds(self._patience)
        while True:
            await asyncio.sleep(min(_LOOK, self._patience / 4))
            try:
                workers = await asyncio.wait_for(self.list_workers(), self._patience)
                if workers:
                    last_seen = loop.time()
                for worker in self._losses.keys() - set(workers):
                    self._losses.pop(worker).set_result(None)
            except asyncio.TimeoutError:
                problem = f"The Dask scheduler at {self.address} did not answer for {waited}"
                break
            except CheckEnded:
                # Dask cancels all futures when the connection is lost.
                return
            if loop.time() - last_seen > self._patience:
                problem = f"The Dask cluster at {self.address} had no workers for {waited}"
                break
        self._ended.set_result(problem)


async def _complete(work: Awaitable[_T]) -> _T:
    """Return the result of ``work``; raise an OSError if Dask has cancelled it.

    A cancellation by Dask would otherwise look like a cancellation of the check.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,))
    finally:
        task.cancel()
    if task.cancelled():
        raise ConnectionError("The connection was closed.")
    return task.result()


def _worker_function() -> Callable[..., Any]:
    """Return the function that workers execute.

    Dask sends a nested function with its code, and not only by its name. The scheduler therefore
    does not need fullgraph. A worker can report that it lacks fullgraph or has another version.
    """

    async def trace_file(version: str, packed: bytes) -> tuple[str, str, bytes]:
        from distributed import get_worker

        worker = get_worker()
        try:
            import fullgraph
        except ImportError:
            return worker.address, "", b""
        if fullgraph.__version__ != version:
            return worker.address, fullgraph.__version__, b""
        from fullgraph.cli.cluster.worker import run_task

        return worker.address, version, await run_task(packed, worker)

    return trace_file


def _parse_answer(worker: str, version: str, packed: bytes) -> tuple[TaskAnswer, Sequence[Event]]:
    if packed:
        return unpack_answer(packed)
    has = f"has fullgraph {version}" if version else "cannot import fullgraph"
    return _problem(
        worker,
        f"Worker {worker} {has}, but this command uses fullgraph {__version__}",
        f"Install this version on all workers: `pip install fullgraph=={__version__}`.",
    )


def _problem(worker: str, reason: str, next_step: str) -> tuple[TaskAnswer, Sequence[Event]]:
    return TaskAnswer(worker, problem=reason, next_step=next_step), ()


def _check_versions(address: str, versions: Mapping[str, Any]) -> None:
    """Raise CheckEnded if the scheduler or a worker has another Dask or Python than this process,
    because their messages may be incompatible."""
    own = versions["client"]["packages"]
    others = {f"The scheduler at {address}": versions["scheduler"]}
    others.update({f"Worker {name}": one for name, one in versions["workers"].items()})
    for name, one in others.items():
        packages = one["packages"]
        if packages["distributed"] != own["distributed"]:
            version = packages["distributed"]
            raise CheckEnded(
                f"{name} has distributed {version}, but this command has {own['distributed']} "
                f"(install the same version with `pip install distributed=={version}`)"
            )
        if _minor(packages["python"]) != _minor(own["python"]):
            raise CheckEnded(
                f"{name} runs Python {_minor(packages['python'])}, but this command runs "
                f"Python {_minor(own['python'])} (use the same version for both)"
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
