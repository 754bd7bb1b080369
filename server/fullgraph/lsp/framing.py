"""The headers of messages as careless clients write them, turned into what the library takes."""

from __future__ import annotations

import asyncio
import logging
import re

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 30
"""Of one message; a client that announces more is taken for broken."""

_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,20})[ \t]*", re.IGNORECASE)
_IGNORED = b"X-Ignored: \r\n"


class MessageReader:
    """What pygls reads from: header lines may end in LF, be in any case, and of any length."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def readline(self) -> bytes:
        """A header line as the base protocol has it; empty at the end."""
        try:
            line = await self._stream.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as error:
            await self._pass_over(error.consumed)
            return _IGNORED
        if not line.strip():
            return b"\r\n"
        found = _LENGTH.fullmatch(line.rstrip(b"\r\n"))
        if found is None:
            return _IGNORED
        if int(found[1]) > MOST_BYTES:
            logger.error("A message of %s bytes was announced: no client sends that", found[1])
            return b""
        return b"Content-Length: %d\r\n" % int(found[1])

    async def readexactly(self, count: int) -> bytes:
        """The body of a message; empty if the client is gone before it has sent all."""
        try:
            return await self._stream.readexactly(count)
        except asyncio.IncompleteReadError:
            return b""

    async def _pass_over(self, count: int) -> None:
        """Discard the rest of a line, of which so many bytes are there."""
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
