"""Messages to one client, and the tasks that send them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.protocol import Protocol
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.session import MessageLevel

logger = logging.getLogger(__name__)

MOST_LOG = 64 * 1024
"""Characters of user output that go to the client's log for one run."""

_PARENT_WATCH = 3.0
"""Seconds between two looks at whether the client's process is there."""

_LEVELS = {
    MessageLevel.ERROR: types.MessageType.Error,
    MessageLevel.WARNING: types.MessageType.Warning,
    MessageLevel.INFORMATION: types.MessageType.Info,
}


class Connection:
    """What every part of the server needs to reach the client, and nothing that needs them."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged = 0
        protocol.on_broken = self.stop

    # -- messages -----------------------------------------------------------------------------

    def plain(self, value: Any) -> Any:
        """A type of the protocol as the JSON that it is sent as."""
        return self.protocol._converter.unstructure(value)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification, with parameters as types or as plain data."""
        self.protocol.send_notification(method, params)

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result.

        Raises:
            JsonRpcException: the client answered with an error.
        """
        return await self.protocol.request(method, params)

    def request_in_background(self, method: str, params: Any) -> None:
        """Send a request whose result does not matter."""

        async def send() -> None:
            try:
                await self.request(method, params)
            except JsonRpcException as error:
                logger.info("%s was refused: %s", method, error)

        self.in_background(send())

    async def show_document(self, uri: str, client: ClientCapabilities, *, focus: bool) -> bool:
        """Have the client open a document, if it can; says whether it did.

        ``focus``: the user asked for it just now. What comes later must not take the keystrokes
        that are meant for another text.
        """
        if not client.show_document or self.protocol.is_shut_down:
            return False
        params = types.ShowDocumentParams(uri, external=False, take_focus=focus)
        try:
            result = await self.request(types.WINDOW_SHOW_DOCUMENT, params)
        except JsonRpcException:
            return False
        return bool(getattr(result, "success", False))

    def show_message(self, level: MessageLevel, message: str) -> None:
        """Show a message that the user should read now."""
        params = types.ShowMessageParams(_LEVELS[level], f"fullgraph: {message}")
        self.notify(types.WINDOW_SHOW_MESSAGE, params)

    async def offer(self, level: MessageLevel, message: str, *choices: str) -> str:
        """Show a message with buttons and wait for the user; the one pressed, empty if none."""
        actions = [types.MessageActionItem(title=choice) for choice in choices]
        params = types.ShowMessageRequestParams(_LEVELS[level], f"fullgraph: {message}", actions)
        try:
            chosen = await self.request(types.WINDOW_SHOW_MESSAGE_REQUEST, params)
        except JsonRpcException:
            return ""
        return getattr(chosen, "title", "")

    def log(self, text: str) -> None:
        """Write to the client's log, up to ``MOST_LOG`` characters for one run."""
        if self._logged > MOST_LOG:
            return
        self._logged += len(text)
        if self._logged > MOST_LOG:
            text = f"{text[:1000]}\n... The rest of the output of this run is not shown."
        self.notify(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Log, text))

    def reset_log(self) -> None:
        """A run began, which may log as much as the one before."""
        self._logged = 0

    # -- tasks --------------------------------------------------------------------------------

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("In the background: %s", error, exc_info=error)

    def stop(self) -> None:
        """End the server: the client asked for it, or is gone."""
        self._stopped.set()

    async def stopped(self) -> None:
        """Wait until the server is to end."""
        await self._stopped.wait()

    def watch_parent(self, pid: int | None) -> None:
        """Stop when the client's process is gone, should it leave its pipes open."""
        # A client elsewhere, in another container, has a number that means nothing here.
        if pid is not None and pid > 0 and _alive(pid):
            self.in_background(self._watch(pid))

    async def _watch(self, pid: int) -> None:
        while _alive(pid):
            await asyncio.sleep(_PARENT_WATCH)
        self.stop()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
