"""Bytes from and to one client, and the life of the server around them."""

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

from fullgraph.lsp.greeting import Greeting, greet

if TYPE_CHECKING:
    from fullgraph.engines import EarlyEngine
    from fullgraph.lsp.server import Server

_CHUNK = 1 << 16
_LONGEST_HEADER = 1 << 16


@dataclass(frozen=True)
class StandardStreams:
    """Private descriptors of the connection.

    Standard output is pointed at standard error, so that nothing that any library prints can get
    between two messages.
    """

    read: int
    write: int

    @staticmethod
    def take() -> StandardStreams:
        streams = StandardStreams(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        return streams


class _Writer:
    """Writes whole messages. A client that is gone is the end of the server, not an error."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """The process ends soon enough."""


def serve_streams(streams: StandardStreams, *, boot: Path | None, engine: str) -> int:
    """Serve one client over standard streams; return the exit status.

    0 after ``shutdown``, or if nothing was received; 130 after an interrupt; else 1. ``engine``
    is an interpreter to import torch with at once, or empty.
    """
    writer = _Writer(streams.write)

    async def main() -> int:
        early = await _early(engine, boot)
        try:
            # Nothing else happens on the loop yet: whatever an engine says waits in its pipe.
            with _interrupted_at_once():
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
        _pump(streams.read, reader, greeting)
        return await _run(server, reader)

    return _until_done(main)


@contextlib.contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """The loop only notes an interrupt, and waits for whoever does not wait on it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _early(interpreter: str, boot: Path | None) -> EarlyEngine | None:
    """The engine of an interpreter; what is wrong with it is told when a text needs it."""
    if not interpreter:
        return None
    from fullgraph.engines import EarlyEngine, InterpreterNotFound, find_interpreter, torch_on_disk
    from fullgraph.kept import any_results
    from fullgraph.session.settings import environment_source, resolve

    if any_results():
        # They are shown first, and an import of torch beside it would more than double the time
        # that the server takes to be loaded where an editor starts on two processors.
        return None
    try:
        found = find_interpreter(interpreter, None, os.environ)
    except InterpreterNotFound:
        return None
    if torch_on_disk(found.path, os.environ) is False:
        # Another one traces, if it has torch.
        return None
    settings = resolve(environment_source(os.environ)).settings
    early = EarlyEngine(found.path, boot, settings.engine_keep_seconds)
    await early.engine.start()
    return early


def serve_socket(host: str, port: int, *, boot: Path | None) -> int:
    """Serve the first client that connects, and end with it."""
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
        return await _run(server, reader)

    return _until_done(main)


class _SocketWriter:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise BrokenPipeError
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()


async def _run(server: Server, reader: asyncio.StreamReader) -> int:
    try:
        return await server.run(reader)
    finally:
        await server.session.close()


def _until_done(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        return 130


def _pump(descriptor: int, reader: asyncio.StreamReader, greeting: Greeting) -> None:
    """Feed the reader from a thread of its own.

    Not through the loop: making standard input non-blocking also makes non-blocking whatever
    shares it, often standard output. Not through a pool: its threads are waited for at exit, and
    this one may sit in a read that never returns.
    """
    loop = asyncio.get_running_loop()
    reader.feed_data(greeting.read)

    def feed() -> None:
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
                # The loop is closed: the server has ended.
                return
            if not data:
                return

    threading.Thread(target=feed, name="standard input", daemon=True).start()
