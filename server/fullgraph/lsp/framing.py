"""Normalize message headers that do not follow the protocol, so that pygls can parse them."""

from __future__ import annotations

import asyncio
import logging
import re

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30
"""Maximum size of a message in bytes; a larger ``Content-Length`` ends the connection."""

_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,20})[ \t]*", re.IGNORECASE)
_IGNORED = b"X-Ignored: \r\n"


class MessageReader:
    """A reader for pygls that accepts header lines in any case, of any length and with any line
    ending."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def readline(self) -> bytes:
        """Return the next header line with the spelling of the LSP base protocol; empty at the end
        of input."""
        try:
            line = await self._stream.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as error:
            await self._skip_line(error.consumed)
            return _IGNORED
        if not line.strip():
            return b"\r\n"
        found = _LENGTH.fullmatch(line.rstrip(b"\r\n"))
        if found is None:
            return _IGNORED
        if int(found[1]) > MOST_BYTES:
            logger.error("Closed the connection: a message of %s bytes is too large", found[1])
            return b""
        return b"Content-Length: %d\r\n" % int(found[1])

    async def readexactly(self, count: int) -> bytes:
        """Return the body of a message; empty if the client disconnected before it sent all
        bytes."""
        try:
            return await self._stream.readexactly(count)
        except asyncio.IncompleteReadError:
            return b""

    async def _skip_line(self, count: int) -> None:
        """Discard input up to the end of the current line, whose first ``count`` bytes are in the
        buffer.
        """
        while True:
            await self._stream.readexactly(count)
            try:
                await self._stream.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError as error:
                count = error.consumed
            else:
                return
