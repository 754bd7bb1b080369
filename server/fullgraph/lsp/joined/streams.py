"""Read and write whole JSON-RPC messages."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from fullgraph.lsp.framing import MessageReader

logger = logging.getLogger(__name__)

_LENGTH = b"Content-Length:"


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message; None at the end of the stream. Invalid messages are skipped."""
    lines = MessageReader(reader)
    while True:
        length = None
        while (line := await lines.readline()) != b"\r\n":
            if not line:
                return None
            if line.startswith(_LENGTH):
                length = int(line[len(_LENGTH) :])
        if length is None:
            continue
        body = await lines.readexactly(length)
        if not body:
            return None
        try:
            message = json.loads(body)
        except ValueError as error:
            logger.warning("A message was ignored, because it is not JSON: %s", error)
            continue
        if isinstance(message, dict):
            return message


def encode_message(message: dict[str, Any]) -> bytes:
    """Return a message with its header."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    return b"Content-Length: %d\r\n\r\n" % len(body) + body
