"""The engine of a command, run by a background process; the command's own where that fails."""

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
from fullgraph.engines.background.connection import Connection
from fullgraph.engines.background.folder import Unavailable
from fullgraph.engines.background.keeper import Start, command
from fullgraph.engines.background.launch import Launch
from fullgraph.engines.background.messages import Hello, Ping, Pong
from fullgraph.engines.engine import (
    LAST,
    OVERDUE_GRACE,
    Analysis,
    AnyEngine,
    Asked,
    EngineState,
    EngineStatus,
    Reproduction,
)
from fullgraph.engines.process import hide_environment_from
from fullgraph_engine.protocol import (
    Analyze,
    Cancel,
    Event,
    Log,
    Reproduce,
    Restarted,
)

START = 30.0
"""Seconds within which a process must listen that was started."""
ALIVE = 5.0
"""Seconds between two questions whether it is still there."""
_MOST_SILENT = 2
"""Questions without an answer; one may be lost while the machine sleeps."""
_PAUSE = 0.02
_LONGEST_LOG = 64 << 10


class BackgroundEngine(AnyEngine):
    """The engine that a background process runs for all commands of its user that need the same.

    Whatever is wrong with the process, ``own`` makes an engine that takes its place: at the start,
    or later for all that is not done by then. ``on_note`` is told why, in a sentence.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        keep: float,
        own: Callable[[], AnyEngine],
        on_log: Callable[[Log], None],
        on_note: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
        boot: Path | None = None,
    ) -> None:
        super().__init__()
        self._launch = launch
        self._keep = keep
        self._make_own = own
        self._on_log, self._on_note = on_log, on_note
        self._environment = environment
        self._boot = boot
        self._connection: Connection | None = None
        self._own: AnyEngine | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._status: EngineStatus | None = None
        self._settled = asyncio.Event()
        self._asked: dict[int, Asked[Any]] = {}
        self._inner: dict[int, Asked[Any]] = {}
        """The same, where the own engine works on them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = False

    # -- start and end ------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the process, which is started if there is none; else start an own engine."""
        if self._connection is not None or self._own is not None:
            return
        try:
            name = self._launch.name(self._environment)
            path = folder.socket_path(folder.private_folder(self._environment), name)
            self._connection = await self._connected(path, name)
        except (Unavailable, OSError) as error:
            words = str(error) if isinstance(error, Unavailable) else f"{error.strerror or error}."
            await self._replace(words)
        else:
            self._connection.send(Hello(self._keep))
            self._in_background(self._watch(self._connection))

    async def _connected(self, path: Path, name: str) -> Connection:
        """
        Raises:
            Unavailable, OSError: it cannot be reached.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + START
        while True:
            try:
                connection = await Connection.to(path, self._received, self._lost)
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                if loop.time() > end:
                    raise Unavailable(
                        f"The process of the engine has not begun to listen within {START:.0f} "
                        "seconds."
                    ) from None
                self._spawn_once(path, name)
                await asyncio.sleep(_PAUSE)
                continue
            welcome = connection.welcome.result()
            if (welcome.name, welcome.version) != (name, __version__):
                connection.drop()
                raise Unavailable(f"The process at {path} is that of another fullgraph.")
            return connection

    def _spawn_once(self, path: Path, name: str) -> None:
        """
        Raises:
            Unavailable: it was started, and has failed.
            OSError: it cannot be started.
        """
        if self._child is not None:
            status = self._child.poll()
            if status is None:
                return
            if status != 0:
                log = _log_path(path)
                raise Unavailable(
                    f"The process of the engine ended with status {status}; {log} has its last "
                    "words."
                )
            # Another one has listened when it began, and is not there any more.
        folder.check_private(path.parent)
        start = Start(self._launch, name, str(path), boot=str(self._boot or ""))
        with _opened_log(path) as log:
            self._child = subprocess.Popen(
                command(start),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._launch.cwd,
                env=dict(self._environment),
                start_new_session=True,
            )

    async def _watch(self, connection: Connection) -> None:
        """A process that a signal has stopped answers nothing, and would keep everybody waiting."""
        silent = 0
        while silent < _MOST_SILENT:
            self._heard = False
            connection.send(Ping())
            await asyncio.sleep(ALIVE)
            silent = 0 if self._heard else silent + 1
        connection.give_up("The process of the engine does not answer.")

    async def ready(self) -> EngineStatus:
        while self._own is None:
            await self._settled.wait()
            if self._own is None:
                assert self._status is not None
                return self._status
        return await self._own.ready()

    async def close(self) -> None:
        """Leave the process to others."""
        self.kill()
        for asked in self._asked.values():
            asked.put(asked.broken_off())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._own is not None:
            await self._own.close()
        if self._child is not None and self._child.poll() is None:
            # It outlives us on purpose.
            self._child.returncode = 0

    def kill(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        if self._own is not None:
            self._own.kill()

    # -- requests -----------------------------------------------------------------------------

    def _ask(self, asked: Asked[Any]) -> None:
        self._asked[asked.request.request] = asked
        if self._own is not None:
            self._ask_own(self._own, asked)
        elif self._connection is not None:
            self._connection.send(asked.request)
            if isinstance(asked, Reproduction):
                seconds = asked.request.seconds + OVERDUE_GRACE
                asyncio.get_running_loop().call_later(seconds, asked.end_overdue)
        else:
            asked.put(asked.broken_off())

    def _cancel(self, asked: Asked[Any]) -> None:
        number = asked.request.request
        if number in self._inner:
            self._inner[number].cancel()
        elif self._connection is not None:
            self._connection.send(Cancel(number))

    def _received(self, message: object) -> None:
        self._heard = True
        if isinstance(message, EngineStatus):
            self._status = message
            if message.state is EngineState.READY:
                hide_environment_from(message.sandbox)
            elif message.state is EngineState.CRASHED and message.final and self._connection:
                # Perhaps of what another command has asked for.
                self._connection.give_up(message.message)
                return
            if message.state is EngineState.STARTING or not message.final:
                self._settled.clear()
            else:
                self._settled.set()
        elif isinstance(message, Log):
            self._on_log(message)
        elif not isinstance(message, Pong):
            event = cast("Any", message)
            asked = self._asked.get(event.request)
            if asked is not None:
                self._put(asked, event)

    def _put(self, asked: Asked[Any], event: Event) -> None:
        asked.put(event)
        if isinstance(event, LAST):
            self._asked.pop(asked.request.request, None)

    # -- an own engine instead ----------------------------------------------------------------

    def _lost(self, reason: str) -> None:
        if self._connection is not None:
            self._connection = None
            self._in_background(self._replace(reason))

    async def _replace(self, reason: str) -> None:
        self._on_note(f"An engine is started for this command alone: {reason}")
        own = self._own = self._make_own()
        self._settled.set()
        await own.start()
        for asked in list(self._asked.values()):
            if asked.cancelled:
                self._put(asked, asked.broken_off())
                continue
            if isinstance(asked, Analysis):
                asked.put(Restarted(asked.request.request))
            self._ask_own(own, asked)

    def _ask_own(self, own: AnyEngine, asked: Asked[Any]) -> None:
        request = asked.request
        inner: Asked[Any]
        if isinstance(request, Analyze):
            inner = own.analyze(request)
        elif isinstance(request, Reproduce):
            inner = own.reproduce(request)
        else:
            inner = own.compare(request)
        self._inner[request.request] = inner
        self._in_background(self._pump(asked, inner))

    async def _pump(self, asked: Asked[Any], inner: Asked[Any]) -> None:
        async for event in inner:
            same = dataclasses.replace(cast("Any", event), request=asked.request.request)
            self._put(asked, same)
        self._inner.pop(asked.request.request, None)

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _log_path(path: Path) -> Path:
    return path.with_name("engine.log")


def _opened_log(path: Path) -> Any:
    log = _log_path(path)
    with contextlib.suppress(OSError):
        if log.stat().st_size > _LONGEST_LOG:
            log.unlink()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "ab")
