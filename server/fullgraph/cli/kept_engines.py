"""``fullgraph engine``: show or stop the background engine processes that keep torch imported for
later commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.phrases import amount, seconds
from fullgraph.engines import EngineStatus
from fullgraph.engines.background import BackgroundUnavailable, private_folder
from fullgraph.engines.background.connection import ANSWER, EngineConnection
from fullgraph.engines.background.folder import list_sockets
from fullgraph.engines.background.messages import Welcome
from fullgraph_engine.protocol import Shutdown


@dataclass(frozen=True)
class KeptEngine:
    """The state of a background engine process.

    ``problem`` is a sentence that says why the state is unknown; empty if it is known.
    """

    path: Path
    """Socket of the process."""
    welcome: Welcome | None = None
    status: EngineStatus | None = None
    problem: str = ""

    def format_line(self) -> str:
        """Format the state of the background engine as one line; return ``problem`` if the state is
        unknown."""
        if self.welcome is None or self.status is None:
            return self.problem
        state = f"torch {self.status.torch}" if self.status.torch else self.status.message
        return (
            f"{self.welcome.interpreter}: {state}, process {self.welcome.pid}, "
            f"{amount(self.welcome.clients, 'client')}, for {seconds(self.welcome.seconds)}"
        )


async def kept_engines(environment: Mapping[str, str], *, stop: bool = False) -> list[KeptEngine]:
    """Return the background engine processes of this user; with ``stop``, also stop them.

    Raises:
        BackgroundUnavailable: Other users can access the folders for sockets.
    """
    folder = private_folder(environment)
    found = [await _kept_engine(path, stop=stop) for path in list_sockets(folder)]
    return [engine for engine in found if engine is not None]


async def _kept_engine(path: Path, *, stop: bool) -> KeptEngine | None:
    """Return the state of the background engine that listens on the socket at ``path``; None if no
    process does.

    With ``stop``, also stop the engine.
    """
    status_received: asyncio.Future[EngineStatus] = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    def handle_message(message: object) -> None:
        if isinstance(message, EngineStatus) and not status_received.done():
            status_received.set_result(message)

    try:
        connection = await EngineConnection.connect_to(
            path, handle_message, lambda reason: ended.set()
        )
    except BackgroundUnavailable as error:
        return KeptEngine(path, problem=str(error))
    except OSError:
        return None
    try:
        status = await asyncio.wait_for(status_received, ANSWER)
        if stop:
            connection.send(Shutdown())
            await asyncio.wait_for(ended.wait(), ANSWER)
        return KeptEngine(path, connection.welcome.result(), status)
    except asyncio.TimeoutError:
        pid = connection.welcome.result().pid
        return KeptEngine(path, problem=f"Process {pid} does not answer; end it with `kill {pid}`.")
    finally:
        connection.drop()
