"""Client side of a connection to a background engine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

from fullgraph.engines.background import folder
from fullgraph.engines.background.folder import BackgroundUnavailable
from fullgraph.engines.background.messages import (
    FromClient,
    Welcome,
    decode_message,
)
from fullgraph.engines.process import LONGEST_LINE, LineProtocol
from fullgraph_engine.protocol import ProtocolError, encode_line

ANSWER = 5.0
"""Maximum seconds until a background engine's process answers after it accepted the connection."""


class EngineConnection(LineProtocol):
    """A client's connection to the background engine whose socket is at a path."""

    def __init__(
        self, on_message: Callable[[object], None], on_lost: Callable[[str], None]
    ) -> None:
        super().__init__(
            self._handle_line,
            self._handle_end,
            longest=LONGEST_LINE,
            on_long=lambda line: self.drop(),
        )
        self.on_message, self.on_lost = on_message, on_lost
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        """Event set when the background engine has closed the connection."""
        self._transport: asyncio.Transport | None = None
        self._lost = False

    @staticmethod
    async def connect_to(
        path: Path,
        on_message: Callable[[object], None] = lambda message: None,
        on_lost: Callable[[str], None] = lambda reason: None,
    ) -> EngineConnection:
        """Connect to the background engine whose socket is at ``path``, and wait for its first
        message, ``Welcome``.

        ``on_message`` is called with each later message; ``on_lost`` with the reason if the
        connection is lost.

        Raises:
            OSError: No process listens at the path.
        """
        loop = asyncio.get_running_loop()
        connected = socket.socket(socket.AF_UNIX)
        connected.setblocking(False)
        try:
            connected.connect(str(path))
            if not folder.same_user(connected):
                raise BackgroundUnavailable(f"The process at {path} is another user's.")
            _, connection = await loop.create_unix_connection(
                lambda: EngineConnection(on_message, on_lost), sock=connected
            )
        except BlockingIOError:
            connected.close()
            raise BackgroundUnavailable(f"The process at {path} accepts no connections.") from None
        except BaseException:
            connected.close()
            raise
        try:
            await asyncio.wait_for(asyncio.shield(connection.welcome), ANSWER)
        except asyncio.TimeoutError:
            connection.drop()
            raise BackgroundUnavailable(f"The process at {path} does not answer.") from None
        except BaseException:
            connection.drop()
            raise
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, message: FromClient) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode_line(message))

    async def close(self) -> None:
        """Close the connection after the background engine has received all messages."""
        self._lost = True
        if self._transport is not None and not self._transport.is_closing():
            # An immediate close could lose messages in both directions.
            self._transport.write_eof()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ended.wait(), ANSWER)
            self._transport.abort()

    def drop(self) -> None:
        """Close the connection immediately; messages in transit are lost."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, reason: str) -> None:
        """Close the connection and report its loss, with ``reason``, to the function
        ``on_lost``.
        """
        if self._lost:
            return
        self.drop()
        if self.welcome.done():
            self.on_lost(reason)
        else:
            self.welcome.set_exception(BackgroundUnavailable(reason))

    def _handle_end(self) -> None:
        self.ended.set()
        if self._lost:
            return
        self._lost = True
        if not self.welcome.done():
            # The background engine has just ended, so the client may start another one.
            self.welcome.set_exception(ConnectionRefusedError())
        else:
            self.on_lost("The process of the engine has ended.")

    def _handle_line(self, line: bytes) -> None:
        if self._lost:
            return
        try:
            message = decode_message(line)
        except ProtocolError as error:
            self.give_up(f"The process of the engine sent an invalid message: {error}.")
            return
        if not isinstance(message, Welcome):
            self.on_message(message)
        elif not self.welcome.done():
            self.welcome.set_result(message)
