"""JSON-RPC as this server wants it from pygls.

pygls brings the types, the framing and the bookkeeping of requests. What a message does is decided
here and in ``methods``: none of its built-in handlers stay, because each keeps state that we keep
better (texts whose lines are Python's), or forgets to drop some (a future for every change).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

logger = logging.getLogger(__name__)

_INTERNAL_ERROR = -32603
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602


class Protocol(LanguageServerProtocol):
    """One response for each request; errors that say what happened and no more."""

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        self.fm.builtin_features.clear()
        self.answered: set[int | str] = set()
        """Requests that were answered before the library was there."""
        self.initialize_params: dict[str, Any] = {}
        """As the client sent them: the types drop what is newer than they are."""
        self.initialized = False
        self.on_broken: Callable[[], None] = lambda: None
        self._open: set[int | str] = set()

    # -- in -----------------------------------------------------------------------------------

    def structure_message(self, data: dict[str, Any]) -> Any:
        if data.get("jsonrpc") and data.get("method") == types.INITIALIZE:
            self.initialize_params = data.get("params") or {}
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            # Left to pygls, a request with bad parameters would never be answered.
            return _Malformed(data.get("id"), str(data.get("method", "")), error)

    def _handle_request(self, msg_id: int | str, method_name: str, params: Any) -> None:
        self._open.add(msg_id)
        if not self.initialized and method_name != types.INITIALIZE:
            error = JsonRpcServerNotInitialized("The first request must be initialize.")
            self._send_response(msg_id, error=error.to_response_error())
            return
        if self.initialized and method_name == types.INITIALIZE:
            again = types.ResponseError(_INVALID_REQUEST, "The server is initialized already.")
            self._send_response(msg_id, error=again)
            return
        try:
            self._get_handler(method_name)
        except JsonRpcMethodNotFound as error:
            # Not an error of the server that anyone has to be told of.
            self._send_response(msg_id, error=error.to_response_error())
            return
        super()._handle_request(msg_id, method_name, params)

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if not self.initialized and method_name != types.EXIT:
            return
        super()._handle_notification(method_name, params)

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        # Only what the client asked: ids of our own requests live in the same table.
        if msg_id in self._open and msg_id in self._request_futures:
            super()._handle_cancel_notification(msg_id)

    def _handle_response(
        self, msg_id: int | str, result: Any | None = None, error: Any | None = None
    ) -> None:
        # The answer may come after whoever asked was cancelled.
        future = self._request_futures.get(msg_id)
        if future is None or future.done():
            self._request_futures.pop(msg_id, None)
            return
        super()._handle_response(msg_id, result, error)

    def cancel_open(self) -> None:
        """Answer what is still being worked on with "cancelled", but not the current request."""
        for msg_id in list(self._open):
            future = self._request_futures.get(msg_id)
            if msg_id != self.msg_id and future is not None:
                future.cancel()

    def shut_down(self) -> None:
        """From here on only ``exit`` is heard."""
        self.cancel_open()
        self._shutdown = True

    @property
    def is_shut_down(self) -> bool:
        return self._shutdown

    def handle_message(self, message: Any) -> None:
        if isinstance(message, _Malformed):
            if message.id is not None and message.method:
                self._open.add(message.id)
                error = types.ResponseError(
                    _INVALID_PARAMS, f"The parameters of {message.method} are not what it takes."
                )
                self._send_response(message.id, error=error)
            else:
                logger.warning("%r has parameters that it does not take.", message.method)
            return
        if self._shutdown and hasattr(message, "id") and hasattr(message, "method"):
            error = types.ResponseError(_INVALID_REQUEST, "The server is shutting down.")
            self._open.add(message.id)
            self._send_response(message.id, error=error)
            return
        super().handle_message(message)

    # -- out ----------------------------------------------------------------------------------

    def _send_response(
        self, msg_id: int | str, result: Any | None = None, error: Any | None = None
    ) -> None:
        """Every response goes through here; a second one to a request does not."""
        if msg_id in self.answered:
            self.answered.discard(msg_id)
            self._open.discard(msg_id)
            return
        if msg_id not in self._open:
            logger.warning("A second response to request %r was dropped.", msg_id)
            return
        if error is not None and error.code == _INTERNAL_ERROR:
            error = types.ResponseError(
                _INTERNAL_ERROR, "fullgraph met an error of its own; its log says more."
            )
        if error is None and isinstance(result, dict):
            # Plain data already: the converter would look at each value of it.
            self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "result": result})
        else:
            super()._send_response(msg_id, result, error)
        # Only now: what cannot be written is still to be answered, with an error.
        self._open.discard(msg_id)

    def _send_data(self, data: Any) -> None:
        if self.writer is None:
            return
        body = json.dumps(data, default=self._serialize_message).encode()
        try:
            self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        except (ConnectionError, OSError):
            # The client is gone, and so soon is the server.
            self.on_broken()

    def send_notification(self, method: str, params: Any) -> None:
        """A notification, with parameters as types or as plain data."""
        if hasattr(params, "__attrs_attrs__"):
            params = self._converter.unstructure(params)
        self._send_data({"jsonrpc": self.VERSION, "method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        """A request to the client. Cancelling the wait leaves the answer to be ignored.

        Raises:
            JsonRpcException: the client answered with an error.
        """
        answer: Future[Any] = self.send_request(method, params)
        waiting = asyncio.wrap_future(answer)
        # Retrieved in any case, or asyncio complains of an error that nobody waited for.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(waiting)


class ErrorsOfClients(logging.Filter):
    """Leaves out what pygls logs of messages that clients are answered with an error."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        malformed = str(record.msg).startswith("Unable to deserialize message")
        return not (malformed or isinstance(error, JsonRpcException))


@dataclass(frozen=True)
class _Malformed:
    """A message whose parameters are not those of its method."""

    id: int | str | None
    method: str
    error: JsonRpcException
