"""Byte streams between the server and one client, and the lifetime of the server that uses them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullgraph.lsp.greeting import greet

if TYPE_CHECKING:
    from fullgraph.engines import EarlyEngine
    from fullgraph.lsp.server import Server

_CHUNK = 1 << 16
_LONGEST_HEADER = 1 << 16


@dataclass(frozen=True)
class StandardStreams:
    """File descriptors reserved for the connection.

    Standard output is redirected to standard error, so that output of libraries cannot corrupt
    messages.
    """

    read: int
    write: int

    @staticmethod
    def reserve() -> StandardStreams:
        streams = StandardStreams(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        return streams


class DescriptorWriter:
    """Writes whole messages to a file descriptor; raises OSError if the client has disconnected."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """Do nothing: the process ends soon after the last message."""


def serve_streams(streams: StandardStreams, *, boot: Path | None, engine: str) -> int:
    """Serve one client over standard streams; return the exit status.

    The status is 0 after ``shutdown`` or without any input, 130 after an interrupt, else 1.
    ``engine`` is an interpreter whose torch is imported immediately; it may be empty.
    """
    writer = DescriptorWriter(streams.write)

    async def main() -> int:
        early = await _start_early_engine(engine, boot)
        try:
            # The event loop is not running yet, so messages from the engine wait in the pipe.
            with _interrupt_immediately():
                greeting = greet(lambda: os.read(streams.read, _CHUNK), writer.write)
        except BrokenPipeError:
            greeting = None
        if greeting is None or not greeting.read:
            if early is not None:
                await early.engine.close()
            return 1 if greeting is None else 0

        from fullgraph.lsp.server import Server

        server = Server(boot=boot, answered=greeting.answered, early=early)
        server.protocol.set_writer(writer)
        reader = asyncio.StreamReader(limit=_LONGEST_HEADER)
        pump_input(streams.read, reader, greeting.read)
        return await _run_server(server, reader)

    return _run_main(main)


@contextlib.contextmanager
def _interrupt_immediately() -> Iterator[None]:
    """Make an interrupt raise KeyboardInterrupt immediately; the event loop would wait for the
    blocking read to end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _start_early_engine(interpreter: str, boot: Path | None) -> EarlyEngine | None:
    """Start the engine process with an interpreter before a file needs it. None if the start fails;
    the failure is reported when a file needs the engine."""
    if not interpreter:
        return None
    from fullgraph.engines import EarlyEngine, InterpreterNotFound, find_interpreter, torch_on_disk
    from fullgraph.session.settings import environment_source, resolve_settings
    from fullgraph.store.folder import any_results

    if any_results():
        # Cached results are shown first. Importing torch at the same time would more than double
        # the time that the server needs to load on a machine with two processors.
        return None
    try:
        found = find_interpreter(interpreter, None, os.environ)
    except InterpreterNotFound:
        return None
    if torch_on_disk(found.path, os.environ) is False:
        # This interpreter does not have torch, so the session will use another one.
        return None
    settings = resolve_settings(environment_source(os.environ)).settings
    early = EarlyEngine(found.path, boot, settings.engine_keep_seconds)
    await early.engine.start()
    return early


def serve_joined(streams: StandardStreams, command: tuple[str, ...]) -> int:
    """Serve one client over standard streams with fullgraph's server and the server that
    ``command`` starts; return the exit status.

    Raises:
        CannotStart: The command cannot be executed.
    """
    from fullgraph.lsp.joined.proxy import ServerProxy

    async def main() -> int:
        proxy = ServerProxy(command, DescriptorWriter(streams.write).write)
        reader = asyncio.StreamReader(limit=_LONGEST_HEADER)
        pump_input(streams.read, reader)
        return await proxy.run(reader)

    return _run_main(main)


def serve_socket(host: str, port: int, *, boot: Path | None) -> int:
    """Serve the first client that connects to the address; return the exit status.

    ``boot`` is a script that starts the engine instead of the usual one.
    """
    from fullgraph.lsp.server import Server

    async def main() -> int:
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result((reader, writer))

        listening = await asyncio.start_server(connect, host, port)
        address = listening.sockets[0].getsockname()
        print(f"fullgraph: listening on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
        reader, writer = await connected
        listening.close()
        server = Server(boot=boot)
        server.protocol.set_writer(_SocketWriter(writer))
        return await _run_server(server, reader)

    return _run_main(main)


class _SocketWriter:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise BrokenPipeError
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()


async def _run_server(server: Server, reader: asyncio.StreamReader) -> int:
    try:
        return await server.run(reader)
    finally:
        await server.close()


def _run_main(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        return 130


def pump_input(descriptor: int, reader: asyncio.StreamReader, known: bytes = b"") -> None:
    """Read standard input in a thread of its own and feed the bytes to ``reader``, after ``known``,
    bytes that were read before.

    The event loop would have to make standard input non-blocking, which also affects file
    descriptors that share it, often standard output. A thread of a pool would delay the exit,
    because its read may never return.
    """
    loop = asyncio.get_running_loop()
    reader.feed_data(known)

    def feed_reader() -> None:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except OSError:
                data = b""
            try:
                if data:
                    loop.call_soon_threadsafe(reader.feed_data, data)
                else:
                    loop.call_soon_threadsafe(reader.feed_eof)
            except RuntimeError:
                # The event loop is closed, because the server has ended.
                return
            if not data:
                return

    threading.Thread(target=feed_reader, name="standard input", daemon=True).start()
