"""Answer ``initialize`` before the protocol library is loaded.

Importing lsprotocol takes a quarter of a second, and an editor sends nothing else until it has this
answer. The answer is therefore built from plain data; the library is loaded afterwards, reads the
same request, and does not answer it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fullgraph.lsp.server_capabilities import initialize_result
from fullgraph.session.capabilities import ClientCapabilities

_LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_END = re.compile(rb"\r?\n\r?\n")
_LONGEST_HEADER = 4096


@dataclass(frozen=True)
class Greeting:
    """Input that was read before the protocol library was loaded, for the library to parse, and the
    ids of requests that were answered already."""

    read: bytes
    answered: frozenset[int | str] = frozenset()


def greet(read: Callable[[], bytes], write: Callable[[bytes], None]) -> Greeting:
    """Read the first message and answer it if it is ``initialize``.

    ``read`` returns the available bytes, or nothing at the end of input. Any other message is left
    to the protocol library.
    """
    data = b""
    while True:
        head = _END.search(data)
        if head is not None or len(data) > _LONGEST_HEADER:
            break
        more = read()
        if not more:
            return Greeting(data)
        data += more
    length = _LENGTH.search(data, 0, head.end()) if head is not None else None
    if head is None or length is None:
        return Greeting(data)
    body = head.end()
    while len(data) < body + int(length[1]):
        more = read()
        if not more:
            return Greeting(data)
        data += more
    request = _parse_initialize(data[body : body + int(length[1])])
    if request is None:
        return Greeting(data)
    client = ClientCapabilities.from_capabilities(_request_params(request).get("capabilities"))
    number = request["id"]
    answer = {"jsonrpc": "2.0", "id": number, "result": initialize_result(client)}
    text = json.dumps(answer).encode()
    write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
    return Greeting(data, frozenset({number}))


def _parse_initialize(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)
    except ValueError:
        return None
    if (
        isinstance(message, dict)
        and message.get("method") == "initialize"
        and isinstance(message.get("id"), (int, str))
        and isinstance(message.get("params"), dict)
    ):
        return message
    return None


def _request_params(request: dict[str, Any]) -> dict[str, Any]:
    params = request["params"]
    return params if isinstance(params, dict) else {}
