"""The connection to one client, and the tasks that send messages to it."""

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
from fullgraph.session.listener import MessageLevel

logger = logging.getLogger(__name__)

MOST_LOG = 64 * 1024
"""Maximum number of characters of output of the user's code that one trace may write to the
client's log."""

_PARENT_WATCH = 3.0
"""Interval in seconds between two checks whether the client's process still exists."""

_LEVELS = {
    MessageLevel.ERROR: types.MessageType.Error,
    MessageLevel.WARNING: types.MessageType.Warning,
    MessageLevel.INFORMATION: types.MessageType.Info,
}


class ClientConnection:
    """The connection to one client: sends messages and runs background tasks, for all parts of the
    server."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged_characters = 0
        protocol.on_broken = self.stop

    # -- messages -----------------------------------------------------------------------------

    def to_json_data(self, value: Any) -> Any:
        """Convert an object of the protocol library (lsprotocol) to JSON data for sending."""
        return self.protocol._converter.unstructure(value)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client; ``params`` is an object of lsprotocol or JSON data."""
        self.protocol.send_notification(method, params)

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result.

        Raises:
            JsonRpcException: The client answered with an error.
        """
        return await self.protocol.request(method, params)

    def request_in_background(self, method: str, params: Any) -> None:
        """Send a request to the client and ignore its result.

        After the client has requested the shutdown, this sends nothing: the client would react to a
        refresh with requests, which the server then refuses.
        """
        if self.protocol.is_shut_down:
            return

        async def send() -> None:
            try:
                await self.request(method, params)
            except JsonRpcException as error:
                logger.info("%s was refused: %s", method, error)

        self.run_in_background(send())

    async def show_document(self, uri: str, client: ClientCapabilities, *, focus: bool) -> bool:
        """Ask the client to open a document; return whether it did.

        ``focus`` is true if the user has just asked for the document. A document that opens later
        must not take the focus, or it would receive keystrokes meant for another text.
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
        """Show the user a message."""
        params = types.ShowMessageParams(_LEVELS[level], f"fullgraph: {message}")
        self.notify(types.WINDOW_SHOW_MESSAGE, params)

    def log(self, text: str) -> None:
        """Write to the client's log, at most ``MOST_LOG`` characters for each trace."""
        if self._logged_characters > MOST_LOG:
            return
        self._logged_characters += len(text)
        if self._logged_characters > MOST_LOG:
            text = f"{text[:1000]}\n... The rest of the output of this run is not shown."
        self.notify(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Log, text))

    def reset_log(self) -> None:
        """Reset the count of logged characters to zero, because a new trace begins."""
        self._logged_characters = 0

    # -- tasks --------------------------------------------------------------------------------

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("In the background: %s", error, exc_info=error)

    def stop(self) -> None:
        """Stop the server because the client asked for it or has disconnected."""
        self._stopped.set()

    async def wait_until_stopped(self) -> None:
        """Wait until :meth:`stop` is called."""
        await self._stopped.wait()

    def watch_parent(self, pid: int | None) -> None:
        """Stop the server when the client's process with the number ``pid`` ends, even if its pipes
        stay open."""
        # The process number of a client in another container does not identify a process here.
        if pid is not None and pid > 0 and _is_alive(pid):
            self.run_in_background(self._watch_process(pid))

    async def _watch_process(self, pid: int) -> None:
        while _is_alive(pid):
            await asyncio.sleep(_PARENT_WATCH)
        self.stop()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
