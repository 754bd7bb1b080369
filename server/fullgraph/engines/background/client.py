"""Client of a background engine (a process with torch, shared by commands and editors).

On failure it falls back to a private engine, a child process of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from fullgraph import __version__
from fullgraph.engines.background import folder
from fullgraph.engines.background.connection import EngineConnection
from fullgraph.engines.background.folder import BackgroundUnavailable
from fullgraph.engines.background.keeper import Start, keeper_command
from fullgraph.engines.background.launch import EngineLaunch
from fullgraph.engines.background.messages import Hello, Ping, Pong
from fullgraph.engines.engine import CLOSE_GRACE, AnyEngine, EngineListener
from fullgraph.engines.process import hide_environment_from
from fullgraph.engines.requests import LAST, AnalysisRequest, PendingRequest
from fullgraph.engines.status import EngineState, EngineStatus
from fullgraph_engine.protocol import (
    Analyze,
    Cancel,
    Event,
    Failed,
    IndexWritten,
    Log,
    Prioritize,
    Reproduce,
    Restarted,
    Shutdown,
)

START = 30.0
"""Maximum seconds until a newly started background process accepts connections on its socket."""
ALIVE = 5.0
"""Interval in seconds at which the client checks whether the background engine's process
responds.
"""
_MOST_SILENT = 2
"""Number of checks that may stay unanswered before the process counts as stopped; one may be lost
while the machine sleeps.
"""
_PAUSE = 0.02
_LONGEST_LOG = 64 << 10


class BackgroundEngine(AnyEngine):
    """An engine in a background process, shared by all commands and editors with the same
    interpreter and permissions.

    If the background process fails, a private engine (a child process of this process), made by
    ``own``, replaces it and takes over unfinished requests. ``on_note`` receives the reason for the
    failure as a sentence.
    """

    def __init__(
        self,
        launch: EngineLaunch,
        listener: EngineListener,
        *,
        keep: float,
        own: Callable[[str], AnyEngine],
        on_note: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
        boot: Path | None = None,
    ) -> None:
        """Store the settings without connecting.

        ``own`` makes the private engine that replaces a failed background engine; its argument is
        the setting that selects how the engine starts processes. ``keep``: seconds that the
        background process stays after its last client.
        """
        super().__init__(Path(launch.interpreter), launch.processes, launch.allowed)
        self._launch = launch
        self._listener = listener
        self._keep = keep
        self._make_own = own
        self._on_note = on_note
        self._environment = environment
        self._boot = boot
        self._connection: EngineConnection | None = None
        self._own: AnyEngine | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._status = EngineStatus(
            EngineState.STOPPED,
            "The engine is not running.",
            interpreter=launch.interpreter,
            final=False,
        )
        self._settled = asyncio.Event()
        self._asked: dict[int, PendingRequest[Any]] = {}
        self._inner: dict[int, PendingRequest[Any]] = {}
        """Unfinished requests that were sent again to the private engine, after the background
        process failed, by the number of the original request.
        """
        self._tasks: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()
        self._heard = False
        self._closed = False

    @property
    def status(self) -> EngineStatus:
        return self._status if self._own is None else self._own.status

    # -- start and end ------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the background engine's process, which is started if missing; use a private
        engine if this fails.
        """
        async with self._changing:
            if self._connection is None and self._own is None:
                await self._connect_or_replace()

    async def _connect_or_replace(self) -> None:
        self._launch = dataclasses.replace(self._launch, processes=self.processes)
        try:
            name = self._launch.engine_name(self._environment)
            path = folder.socket_path(folder.private_folder(self._environment), name)
            connection = await self._open_connection(path, name)
        except (BackgroundUnavailable, OSError) as error:
            words = (
                str(error)
                if isinstance(error, BackgroundUnavailable)
                else f"{error.strerror or error}."
            )
            await self._replace_by_own(words)
            return
        if self._closed:
            connection.drop()
            return
        self._connection = connection
        connection.send(Hello(self._keep))
        for asked in self._asked.values():
            self._send_request(connection, asked)
        self._in_background(self._watch_process(connection))

    async def restart(self) -> None:
        """End the background engine's process for all of its clients, and start another one."""
        async with self._changing:
            own, self._own = self._own, None
            connection, self._connection = self._connection, None
            self._settled.clear()
            if own is not None:
                await own.close()
            if connection is not None:
                connection.send(Shutdown())
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(connection.ended.wait(), CLOSE_GRACE)
                connection.drop()
            self._fail_requests("The engine was restarted.")
            await self._connect_or_replace()

    def reconsider(self) -> None:
        if self._own is not None:
            self._own.reconsider()

    async def _open_connection(self, path: Path, name: str) -> EngineConnection:
        """Connect to the background process whose socket is at ``path``; start the process if it
        does not run.

        Raises:
            BackgroundUnavailable, OSError: The background process cannot be reached.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + START
        while True:
            try:
                connection = await EngineConnection.connect_to(
                    path, self._handle_message, self._handle_loss
                )
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                if loop.time() > end:
                    raise BackgroundUnavailable(
                        "The process of the engine did not accept connections within "
                        f"{START:.0f} seconds."
                    ) from None
                self._spawn_once(path, name)
                await asyncio.sleep(_PAUSE)
                continue
            welcome = connection.welcome.result()
            if (welcome.name, welcome.version) != (name, __version__):
                connection.drop()
                raise BackgroundUnavailable(
                    f"The process at {path} belongs to another version "
                    "or installation of fullgraph."
                )
            return connection

    def _spawn_once(self, path: Path, name: str) -> None:
        """Start the background process unless an earlier call is still starting it.

        Raises:
            BackgroundUnavailable: The started process failed.
            OSError: The process cannot be started.
        """
        if self._child is not None:
            status = self._child.poll()
            if status is None:
                return
            if status != 0:
                log = _log_path(path)
                raise BackgroundUnavailable(
                    f"The process of the engine ended with status {status}; {log} has its last "
                    "output."
                )
            # The status is 0, so a background process listened earlier; it has exited since.
        folder.check_private(path.parent)
        start = Start(self._launch, name, str(path), boot=str(self._boot or ""))
        with _open_log(path) as log:
            self._child = subprocess.Popen(
                keeper_command(start),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._launch.cwd,
                env=dict(self._environment),
                start_new_session=True,
            )
        python = f"Starting a background engine with {self.interpreter}."
        self._handle_status(
            dataclasses.replace(self._status, state=EngineState.STARTING, message=python)
        )

    async def _watch_process(self, connection: EngineConnection) -> None:
        """Check regularly that the background process responds; a signal such as SIGSTOP may have
        paused it, and requests would wait forever.
        """
        silent = 0
        while silent < _MOST_SILENT and connection is self._connection:
            self._heard = False
            connection.send(Ping())
            await asyncio.sleep(ALIVE)
            silent = 0 if self._heard else silent + 1
        connection.give_up("The process of the engine does not answer.")

    async def ready(self) -> EngineStatus:
        while self._own is None:
            await self._settled.wait()
            if self._own is None:
                return self._status
        return await self._own.ready()

    async def close(self, *, stay: bool = True) -> None:
        """Disconnect from the background process, which keeps running for later clients; without
        ``stay`` it ends unless another client uses it.
        """
        self._closed = True
        if self._connection is not None and not stay:
            self._connection.send(Hello(0.0))
            await self._connection.close()
        self.kill()
        self._fail_requests("The engine was stopped.")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._own is not None:
            await self._own.close()
        if self._child is not None and self._child.poll() is None:
            # The background process intentionally outlives this one.
            self._child.returncode = 0

    def kill(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        if self._own is not None:
            self._own.kill()

    # -- requests -----------------------------------------------------------------------------

    def _submit_request(self, asked: PendingRequest[Any]) -> None:
        self._asked[asked.request.request] = asked
        if self._own is not None:
            self._ask_own(self._own, asked)
        elif self._connection is not None:
            self._send_request(self._connection, asked)
        elif self._closed:
            self._fail_requests("The engine was stopped.")

    def _send_request(self, connection: EngineConnection, asked: PendingRequest[Any]) -> None:
        connection.send(asked.request)
        asked.mark_sent()

    def _cancel_request(self, asked: PendingRequest[Any]) -> None:
        number = asked.request.request
        if number in self._inner:
            self._inner[number].cancel()
        elif self._connection is not None:
            self._connection.send(Cancel(number))
        else:
            # Not connected yet, so the background process has not received the request.
            self._put_event(asked, asked.cancellation_event())

    def _prioritize_request(self, asked: AnalysisRequest, message: Prioritize) -> None:
        inner = self._inner.get(message.request)
        if isinstance(inner, AnalysisRequest):
            inner.prioritize(message.first, message.last)
        elif self._connection is not None:
            self._connection.send(message)

    def _handle_message(self, message: object) -> None:
        self._heard = True
        if isinstance(message, EngineStatus):
            self._handle_status(message)
        elif isinstance(message, Log):
            self._listener.log(message)
        elif isinstance(message, IndexWritten):
            if self._listener.index is not None:
                self._listener.index(message)
        elif not isinstance(message, Pong):
            event = cast("Any", message)
            asked = self._asked.get(event.request)
            if asked is not None:
                self._put_event(asked, event)

    def _handle_status(self, status: EngineStatus) -> None:
        """Apply a new status that the background process sent for its engine."""
        if status.state is EngineState.CRASHED and status.final and self._connection:
            # The engine crashed for good. A request of another client may have caused the crash, so
            # continue with a private engine.
            self._connection.give_up(status.message)
            return
        if status.state is EngineState.READY:
            hide_environment_from(status.sandbox)
        self._status = status
        if status.state is EngineState.STARTING or not status.final:
            self._settled.clear()
        else:
            self._settled.set()
        self._listener.status(status)

    def _put_event(self, asked: PendingRequest[Any], event: Event) -> None:
        asked.put_event(event)
        if isinstance(event, LAST):
            self._asked.pop(asked.request.request, None)

    def _fail_requests(self, reason: str) -> None:
        """End all open requests with a failure; the sentence ``reason`` is its cause."""
        for number, asked in list(self._asked.items()):
            failed = Failed(number, reason, "Try again.")
            self._put_event(asked, asked.cancellation_event() if asked.cancelled else failed)
        self._inner.clear()

    # -- fallback to a private engine ---------------------------------------------------------

    def _handle_loss(self, reason: str) -> None:
        if self._connection is not None:
            self._connection = None
            self._in_background(self._replace_by_own(reason))

    async def _replace_by_own(self, reason: str) -> None:
        if self._closed:
            return
        self._on_note(f"The background engine cannot be used: {reason}")
        own = self._own = self._make_own(self.processes)
        self._settled.set()
        for asked in list(self._asked.values()):
            if asked.cancelled:
                self._put_event(asked, asked.cancellation_event())
                continue
            if isinstance(asked, AnalysisRequest):
                asked.put_event(Restarted(asked.request.request))
            self._ask_own(own, asked)
        await own.start()

    def _ask_own(self, own: AnyEngine, asked: PendingRequest[Any]) -> None:
        request = asked.request
        inner: PendingRequest[Any]
        if isinstance(request, Analyze):
            inner = own.analyze(request)
        elif isinstance(request, Reproduce):
            inner = own.reproduce(request)
        else:
            inner = own.compare(request)
        self._inner[request.request] = inner
        self._in_background(self._pump_events(asked, inner))

    async def _pump_events(self, asked: PendingRequest[Any], inner: PendingRequest[Any]) -> None:
        async for event in inner:
            same = dataclasses.replace(cast("Any", event), request=asked.request.request)
            self._put_event(asked, same)
        self._inner.pop(asked.request.request, None)

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _log_path(path: Path) -> Path:
    return path.with_name("engine.log")


def _open_log(path: Path) -> Any:
    log = _log_path(path)
    with contextlib.suppress(OSError):
        if log.stat().st_size > _LONGEST_LOG:
            log.unlink()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "ab")
