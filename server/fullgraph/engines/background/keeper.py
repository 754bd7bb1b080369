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
from fullgraph.engines.engine import AnyEngine, Engine, EngineListener
from fullgraph.engines.status import EngineState, EngineStatus
from fullgraph_engine.protocol import Shutdown, from_plain, to_plain

LOOK = 5.0
"""Interval in seconds at which the background process checks whether its socket still exists."""
LOOKS = 12
"""Number of checks of the socket between two checks of torch's files, which take longer."""
FRESH = 10.0
"""Maximum seconds for checking whether the files of torch have changed."""
UNUSED = 60.0
"""Seconds after which a background process ends if no client has connected to it since its
start.
"""
MOST = 3
"""Maximum number of background engines per user; beyond it, the one without clients for the longest
time ends.
"""
LAST_WORDS = 2.0
"""Maximum seconds that clients have to read the last messages of a failed engine, before its
process ends.
"""


@dataclass(frozen=True)
class Start:
    """The parameters of a background process, passed as its only command-line argument. ``boot`` is
    a script that starts the engine instead of the usual one."""

    launch: EngineLaunch
    name: str
    path: str
    boot: str = ""


class EngineMaker(Protocol):
    """Interface of the function that makes the background process's engine object, without starting
    the engine.
    """

    def __call__(self, listener: EngineListener) -> AnyEngine: ...


class Keeper:
    """A background process that serves an engine on the socket at a path.

    It ends ``keep`` seconds after its last client has disconnected. It accepts no more clients if
    its engine fails, its socket is replaced, or ``state`` (of torch's files) changes.
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
        """Function to call when the socket accepts connections."""
        self._state = state
        # Read the state of torch's files before the import of torch, so that later changes are
        # noticed.
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
        """Serve the engine until it is not needed any more; return at once if another process
        serves the socket path.

        Raises:
            BackgroundUnavailable, OSError: The socket cannot be created.
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
        """End the background process now, even if it has clients."""
        self._over.set()

    def retire(self) -> None:
        """Accept no more clients, and end the background process when the last client
        disconnects.
        """
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
        """Start or stop the timer that ends an unused process, after a client connected or
        disconnected.
        """
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
    """End unused background engines that exceed the maximum number, except for the one with the
    socket ``own``.
    """
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
    """Return the command line that starts the background process, for any working folder."""
    package = str(Path(__file__).parents[3])
    code = (
        "import sys; sys.path[:] = [one for one in sys.path if one]; "
        f"sys.path.append({package!r}); "
        "from fullgraph.engines.background.keeper import main; main(sys.argv[1])"
    )
    return [sys.executable, "-c", code, json.dumps(to_plain(start))]


def main(argument: str) -> None:
    """Run the background engine in a detached child process, because editors kill the children of
    their servers.

    The parent process exits with status 0 when the child accepts connections, else with the child's
    exit status.
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
