"""What crosses the socket of a background engine: requests and events as to an engine, and these.

One JSON line each. A client begins with ``Hello``; ``Ping`` and ``Shutdown`` need none. The process
begins with ``Welcome`` and the status of its engine, and sends that again whenever it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from fullgraph.engines.engine import EngineStatus
from fullgraph_engine.protocol import (
    MESSAGES,
    Analyze,
    Cancel,
    Compare,
    Event,
    Reproduce,
    Shutdown,
    decode_one_of,
    encode_line,
)


@dataclass(frozen=True)
class Hello:
    """A client is about to send requests. ``keep``: seconds that the process is to stay after its
    last client; what the latest one says counts."""

    keep: float


@dataclass(frozen=True)
class Ping:
    """Is answered at once."""


@dataclass(frozen=True)
class Welcome:
    """Who serves here. ``name`` is that of its launch, ``seconds`` how long it has been there, and
    ``idle`` how long without a client."""

    name: str
    version: str
    """Of fullgraph."""
    pid: int
    interpreter: str
    clients: int = 0
    seconds: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True)
class Pong:
    """The answer to ``Ping``."""


FromClient = Union[Hello, Analyze, Reproduce, Compare, Cancel, Ping, Shutdown]
ToClient = Union[Welcome, EngineStatus, Event, Pong]

_KINDS: dict[str, type] = {
    **MESSAGES,
    **{kind.__name__: kind for kind in (Hello, Ping, Welcome, Pong, EngineStatus)},
}


def encode_message(message: FromClient | ToClient) -> bytes:
    """One line, newline included."""
    # What is too long for people to read was cut when the engine sent it.
    return encode_line(message)


def decode_message(line: bytes) -> object:
    """One of ``FromClient`` or ``ToClient``.

    Raises:
        ProtocolError: it is none.
    """
    message: object = decode_one_of(_KINDS, line)
    return message
