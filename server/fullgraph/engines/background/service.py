"""Serve one engine to the clients of a socket."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from fullgraph.engines.background.folder import same_user
from fullgraph.engines.background.messages import (
    Hello,
    Ping,
    Pong,
    ToClient,
    Welcome,
    decode_message,
)
from fullgraph.engines.engine import AnyEngine
from fullgraph.engines.process import LONGEST_LINE, LineProtocol
from fullgraph.engines.requests import LAST, AnalysisRequest, PendingRequest
from fullgraph.engines.status import EngineStatus
from fullgraph_engine.protocol import (
    Analyze,
    Cancel,
    Compare,
    Event,
    IndexWritten,
    Log,
    Prioritize,
    ProtocolError,
    Reproduce,
    Shutdown,
    encode_line,
)

_MOST_LOGS = 8 << 20
"""Maximum number of bytes that were sent to a client but not read by it; beyond it, output of user
code is dropped."""
_MOST_WAITING = 64 << 20
"""Number of bytes, sent to a client but not read by it, at which the client is disconnected."""


class EngineService:
    """A server in the background process that shares one engine among clients.

    Each client has its own request numbers and receives events of its own requests only. Requests
    of a disconnected client are cancelled. The creator of this object passes the engine's status
    and output to it.
    """

    def __init__(
        self,
        welcome: Callable[[], Welcome],
        *,
        on_change: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
        fresh: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.welcome = welcome
        self.on_change = on_change
        """Function to call after a client connected or disconnected."""
        self.on_stop = on_stop
        """Function to call after a client requested the end of the background process."""
        self.fresh = fresh
        """Function that returns whether an engine started now would use the same files of torch as
        this one.
        """
        self.keep = 0.0
        """Number of seconds that the background process stays without clients, as set by the latest
        client.
        """
        self.clients: set[Client] = set()
        """Connected clients that sent ``Hello`` and may send requests."""
        self.owners: dict[int, tuple[Client, int]] = {}
        """Client of each request and the client's number for it, by the engine's number of the
        request.
        """
        self._connections: set[Client] = set()
        self._engine: AnyEngine | None = None
        self._status: EngineStatus | None = None
        self._index: IndexWritten | None = None
        self._server: asyncio.AbstractServer | None = None
        self._number = 0

    @property
    def engine(self) -> AnyEngine:
        assert self._engine is not None
        return self._engine

    async def serve(self, engine: AnyEngine, listening: socket.socket) -> None:
        """Accept clients on the socket ``listening`` from now on, and send their requests to
        ``engine``.
        """
        self._engine = engine
        self._server = await asyncio.get_running_loop().create_unix_server(
            self._make_client, sock=listening
        )

    def _make_client(self) -> Client:
        self._number += 1
        return Client(self, self._number)

    def close(self) -> None:
        """Accept no more clients."""
        if self._server is not None:
            self._server.close()

    def close_connections(self) -> None:
        """Close the connections to all clients after sending pending messages."""
        for client in list(self._connections):
            client.close()

    # -- events of the engine -----------------------------------------------------------------

    def send_status(self, status: EngineStatus) -> None:
        self._status = status
        for client in self._connections:
            client.send(status)

    def send_index(self, index: IndexWritten) -> None:
        self._index = index
        for client in self.clients:
            client.send(index)

    def send_log(self, log: Log) -> None:
        """Send output of a request to its client, and notes of the engine to all clients."""
        if log.request == 0:
            for client in self.clients:
                client.send(log)
        elif log.request in self.owners:
            client, number = self.owners[log.request]
            client.send(dataclasses.replace(log, request=number))

    # -- connections --------------------------------------------------------------------------

    def add_connection(self, client: Client) -> None:
        self._connections.add(client)
        client.send(self.welcome())
        if self._status is not None:
            client.send(self._status)

    def add_client(self, client: Client, hello: Hello) -> None:
        self.keep = hello.keep
        self.clients.add(client)
        if self._index is not None:
            client.send(self._index)
        self.on_change()

    def remove_client(self, client: Client) -> None:
        self._connections.discard(client)
        self.clients.discard(client)
        self.on_change()


class Client(LineProtocol):
    """The connection of a background engine to one client."""

    def __init__(self, service: EngineService, number: int) -> None:
        super().__init__(
            self._handle_line,
            self._handle_end,
            longest=LONGEST_LINE,
            on_long=lambda line: self.drop(),
        )
        self._service = service
        self._number = number
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, PendingRequest[Any]] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._fresh: asyncio.Future[bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if same_user(transport.get_extra_info("socket")):
            self._service.add_connection(self)
        else:
            self.drop()

    def send(self, message: ToClient) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        if waiting > _MOST_WAITING:
            self.drop()
        elif waiting < _MOST_LOGS or not isinstance(message, Log):
            transport.write(encode_line(message))

    def close(self) -> None:
        """Close the connection after sending pending messages."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """Close the connection immediately, without sending pending messages."""
        if self._transport is not None:
            self._transport.abort()

    def _handle_end(self) -> None:
        for asked in self._asked.values():
            asked.cancel()
        self._service.remove_client(self)

    def _handle_line(self, line: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        try:
            message = decode_message(line)
        except ProtocolError:
            self.drop()
            return
        if isinstance(message, Hello):
            if self._service.fresh is not None:
                self._fresh = asyncio.ensure_future(self._service.fresh())
            self._service.add_client(self, message)
        elif isinstance(message, Ping):
            self.send(Pong())
        elif isinstance(message, Shutdown):
            self._service.on_stop()
        elif isinstance(message, Cancel):
            if message.request in self._asked:
                self._asked[message.request].cancel()
        elif isinstance(message, Prioritize):
            asked = self._asked.get(message.request)
            if isinstance(asked, AnalysisRequest):
                asked.prioritize(message.first, message.last)
        elif isinstance(message, (Analyze, Reproduce, Compare)) and (
            self in self._service.clients and message.request not in self._asked
        ):
            self._begin_request(message)
        else:
            self.drop()

    def _begin_request(self, request: Analyze | Reproduce | Compare) -> None:
        engine, number = self._service.engine, request.request
        asked: PendingRequest[Any]
        if isinstance(request, Analyze):
            asked = engine.analyze(dataclasses.replace(request, client=self._number))
        elif isinstance(request, Reproduce):
            asked = engine.reproduce(request)
        else:
            asked = engine.compare(request)
        self._asked[number] = asked
        self._service.owners[asked.request.request] = self, number
        pump = asyncio.create_task(self._pump_events(asked, number))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)

    async def _pump_events(self, asked: PendingRequest[Any], number: int) -> None:
        """Send the events of the request ``asked`` to its client, which knows the request by
        ``number``.
        """
        try:
            async for event in asked:
                # Results must not be sent if the files of torch have changed since the engine
                # imported them.
                if isinstance(event, LAST) and self._fresh is not None and not await self._fresh:
                    self.drop()
                self.send(cast("Event", dataclasses.replace(cast("Any", event), request=number)))
        finally:
            self._asked.pop(number, None)
            self._service.owners.pop(asked.request.request, None)
