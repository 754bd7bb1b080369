"""Messages on the socket of a background engine, in addition to requests and events of an engine.

Each message is one JSON line. A client begins with ``Hello``, except for ``Ping`` and ``Shutdown``.
The process begins with ``Welcome`` and the engine status, which it sends again after each change.
Messages do not have a length limit, because the engine has already shortened long texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from fullgraph.engines.status import EngineStatus
from fullgraph_engine.protocol import (
    MESSAGES,
    Analyze,
    Cancel,
    Compare,
    Event,
    Prioritize,
    Reproduce,
    Shutdown,
    decode_one_of,
)


@dataclass(frozen=True)
class Hello:
    """The message that a client sends before its requests.

    ``keep``: seconds that the background process stays after its last client disconnected; the
    value of the latest client applies.
    """

    keep: float


@dataclass(frozen=True)
class Ping:
    """A message of a client that the background process answers immediately, which shows that it is
    alive.
    """


@dataclass(frozen=True)
class Welcome:
    """The first message of the background process to a client, which describes the process.

    ``name`` is the hash of its launch parameters; ``seconds`` is its age, ``idle`` the seconds
    without a client.
    """

    name: str
    version: str
    """Version of fullgraph in the background process."""
    pid: int
    interpreter: str
    clients: int = 0
    seconds: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True)
class Pong:
    """The answer to ``Ping``."""


FromClient = Union[Hello, Analyze, Reproduce, Compare, Cancel, Prioritize, Ping, Shutdown]
ToClient = Union[Welcome, EngineStatus, Event, Pong]

_KINDS: dict[str, type] = {
    **MESSAGES,
    **{kind.__name__: kind for kind in (Hello, Ping, Welcome, Pong, EngineStatus)},
}


def decode_message(line: bytes) -> object:
    """Decode a message of ``FromClient`` or ``ToClient``.

    Raises:
        ProtocolError: The line is not a valid message.
    """
    message: object = decode_one_of(_KINDS, line)
    return message
