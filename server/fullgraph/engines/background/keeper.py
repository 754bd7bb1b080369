"""The process of a background engine, and how long it stays."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fullgraph import __version__
from fullgraph.engines.background import folder
from fullgraph.engines.background.connection import EngineConnection
from fullgraph.engines.background.folder import BackgroundUnavailable
from fullgraph.engines.background.launch import EngineLaunch
from fullgraph.engines.background.messages import Welcome
from fullgraph.engines.background.service import EngineService
from fullgraph.engines.engine import (
    AnyEngine,
    Engine,
    EngineListener,
    EngineState,
    EngineStatus,
)
from fullgraph_engine.protocol import Shutdown, from_plain, to_plain

LOOK = 5.0
"""Seconds between two looks at whether its socket is still there."""
LOOKS = 12
"""Looks after which the files of torch are looked at as well, which takes longer."""
FRESH = 10.0
"""Seconds within which these must have been looked at."""
UNUSED = 60.0
"""Seconds that it stays without any client having come."""
MOST = 3
"""Processes of one user; of more, the one ends that has been without a client for the longest."""
LAST_WORDS = 2.0
"""Seconds that clients have to read what an engine of no use has said."""


@dataclass(frozen=True)
class Start:
    """What the process is told at its start. ``boot`` is another script of the engine than ours."""

    launch: EngineLaunch
    name: str
    path: str
    boot: str = ""


class EngineMaker(Protocol):
    """Makes an engine that is not started yet."""

    def __call__(self, listener: EngineListener) -> AnyEngine: ...


class Keeper:
    """Serves an engine at a path for as long as that makes sense.

    It ends some time after the last client; at once, or with its last client, if its engine cannot
    work, its socket was removed or replaced, or ``state`` is not what it was at the start.
    """

    def __init__(
        self,
        path: Path,
        make: EngineMaker,
        *,
        name: str,
        interpreter: str,
        state: Callable[[], str] = lambda: "",
        listens: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._listens = listens
        """Is called once clients can connect."""
        self._state = state
        # Before torch is imported: what changes meanwhile is a change.
        self._began = state()
        self._inode: tuple[int, int] | None = None
        self._over = asyncio.Event()
        self._retired = False
        self._idle: asyncio.TimerHandle | None = None
        self._since = self._used = time.monotonic()
        self._name, self._interpreter = name, interpreter
        self._service = EngineService(
            self._make_welcome,
            on_change=self._clients_changed,
            on_stop=self._over.set,
            fresh=self._is_fresh,
        )
        self._service.keep = UNUSED
        listener = EngineListener(
            self._handle_status, self._service.send_log, self._service.send_index
        )
        self._engine = make(listener)

    def _make_welcome(self) -> Welcome:
        return Welcome(
            self._name,
            __version__,
            os.getpid(),
            self._interpreter,
            len(self._service.clients),
            time.monotonic() - self._since,
            0.0 if self._service.clients else time.monotonic() - self._used,
        )

    async def run(self) -> None:
        """Serve to the end; returns at once if another process does.

        Raises:
            Unavailable, OSError: there can be no socket.
        """
        listening = folder.listen_at(self._path)
        if listening is None:
            return
        self._listens()
        self._inode = folder.socket_inode(self._path)
        look = asyncio.create_task(self._watch_socket())
        try:
            await self._service.serve(self._engine, listening)
            self._clients_changed()
            await self._engine.start()
            await _make_room(self._path)
            await self._over.wait()
        finally:
            look.cancel()
            self.retire()
            self._service.close_connections()
            self._engine.kill()
            await self._engine.close()

    def end(self) -> None:
        """End now."""
        self._over.set()

    def retire(self) -> None:
        """Accept no more clients, and end with the last."""
        if not self._retired:
            self._retired = True
            folder.remove_socket(self._path, self._inode)
            self._service.close()
            self._clients_changed()

    def _handle_status(self, status: EngineStatus) -> None:
        self._service.send_status(status)
        useless = status.state in (EngineState.UNUSABLE, EngineState.CRASHED) and status.final
        if useless and not self._retired:
            self.retire()
            asyncio.get_running_loop().call_later(LAST_WORDS, self._over.set)

    def _clients_changed(self) -> None:
        """Clients have come or gone."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._used = time.monotonic()
        if self._service.clients:
            return
        if self._retired:
            self._over.set()
        else:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._service.keep, self._over.set)

    async def _watch_socket(self) -> None:
        for count in itertools.count(1):
            await asyncio.sleep(LOOK)
            if folder.socket_inode(self._path) != self._inode:
                self.retire()
            elif count % LOOKS == 0:
                await self._is_fresh()

    async def _is_fresh(self) -> bool:
        try:
            state = await asyncio.wait_for(asyncio.to_thread(self._state), FRESH)
        except (BackgroundUnavailable, OSError, asyncio.TimeoutError):
            state = ""
        fresh = state == self._began
        if not fresh:
            self.retire()
        return fresh


async def _make_room(own: Path) -> None:
    """End processes that nobody uses, as far as there are too many with the one at ``own``."""
    others: list[EngineConnection] = []
    for path in folder.list_sockets(own.parent):
        if path != own:
            with contextlib.suppress(OSError, BackgroundUnavailable):
                others.append(await EngineConnection.connect_to(path))
    others.sort(key=lambda one: one.welcome.result().idle)
    for number, other in enumerate(others, 2):
        if number > MOST and not other.welcome.result().clients:
            other.send(Shutdown())
        await other.close()


def keeper_command(start: Start) -> list[str]:
    """The command line of the process; it may be started in any folder."""
    package = str(Path(__file__).parents[3])
    code = (
        "import sys; sys.path[:] = [one for one in sys.path if one]; "
        f"sys.path.append({package!r}); "
        "from fullgraph.engines.background.keeper import main; main(sys.argv[1])"
    )
    return [sys.executable, "-c", code, json.dumps(to_plain(start))]


def main(argument: str) -> None:
    """Be the process, in a child that is nobody's: editors end what is below a server of theirs.

    This one ends with status 0 once the child listens, else with the child's.
    """
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        if not os.read(read, 1):
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
        os._exit(0)
    os.close(read)
    os.setsid()

    def listens() -> None:
        os.write(write, b".")
        os.close(write)

    asyncio.run(_run_keeper(from_plain(Start, json.loads(argument)), listens))


async def _run_keeper(start: Start, listens: Callable[[], None]) -> None:
    launch = start.launch

    def make(listener: EngineListener) -> AnyEngine:
        return Engine(
            Path(launch.interpreter),
            listener,
            cwd=Path(launch.cwd),
            boot=Path(start.boot) if start.boot else None,
            processes=launch.processes,
            allowed=launch.allowed,
        )

    keeper = Keeper(
        Path(start.path),
        make,
        name=start.name,
        interpreter=launch.interpreter,
        state=lambda: f"{launch.engine_name(os.environ)} {launch.torch_state(os.environ)}",
        listens=listens,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, keeper.end)
    await keeper.run()
