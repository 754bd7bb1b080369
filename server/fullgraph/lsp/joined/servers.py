"""The processes of the two language servers, and the requests that wait for their answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fullgraph.lsp.joined.merging import ServerName
from fullgraph.lsp.joined.streams import encode_message, read_message

_GRACE = 5.0
"""Maximum seconds between the end of the client and the end of a server."""
_LONGEST_HEADER = 1 << 16


class RequestFailed(Exception):
    """Raised if a server answers a request with an error, which is JSON data."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False)
class JoinedServer:
    """One of the two language servers that answer together: fullgraph's, or the one of ``--with``.

    ``capabilities`` come from its answer to ``initialize``, and are empty until then.
    """

    name: ServerName
    process: asyncio.subprocess.Process
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    has_ended: bool = False
    _waiting: dict[object, asyncio.Future[Any]] = field(default_factory=dict)

    @classmethod
    async def start(cls, name: ServerName, command: Sequence[str]) -> JoinedServer:
        """Start the process of a server.

        Raises:
            OSError: The command cannot be executed.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_HEADER,
        )
        return cls(name, process)

    def offers(self, capability: str, option: str = "") -> bool:
        """Return whether the server has a capability, and ``option`` in it."""
        found = self.capabilities.get(capability)
        if self.has_ended or found in (None, False):
            return False
        return not option or (isinstance(found, Mapping) and bool(found.get(option)))

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; without effect if the server has ended."""
        assert self.process.stdin is not None
        if not self.has_ended and not self.process.stdin.is_closing():
            self.process.stdin.write(encode_message(message))

    def request(self, id_: object, method: str, params: Any) -> asyncio.Future[Any]:
        """Send a request of the client; the future resolves to its result, or raises
        ``RequestFailed``. If the server has ended, the result is None.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.has_ended:
            future.set_result(None)
            return future
        self._waiting[id_] = future
        message = {"jsonrpc": "2.0", "id": id_, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return future

    async def run(self, handle: Callable[[JoinedServer, dict[str, Any]], None]) -> None:
        """Read messages until the server ends; ``handle`` is called with requests and
        notifications of the server."""
        assert self.process.stdout is not None
        while (message := await read_message(self.process.stdout)) is not None:
            if "method" in message:
                handle(self, message)
            else:
                self._take_answer(message)
        self.has_ended = True
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        future = self._waiting.pop(message.get("id"), None)
        if future is None or future.done():
            return
        if message.get("error"):
            future.set_exception(RequestFailed(message["error"]))
        else:
            future.set_result(message.get("result"))

    async def close(self) -> int:
        """Wait until the process ends, kill it after some seconds, and return its status."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            return await asyncio.wait_for(self.process.wait(), _GRACE)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            return await self.process.wait()
