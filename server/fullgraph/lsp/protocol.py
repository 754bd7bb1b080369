"""The JSON-RPC protocol of the server, on top of pygls.

pygls provides the types, the framing and the bookkeeping of requests. Its built-in handlers are
removed: they store texts and a future for every change, which the analysis session does better.
``methods`` has the handlers of this server.
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
    JsonRpcInvalidParams,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

from fullgraph.lsp.notebooks import NotebookTranslator

logger = logging.getLogger(__name__)

_INTERNAL_ERROR = -32603
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602


class Protocol(LanguageServerProtocol):
    """The JSON-RPC protocol of one connection. It sends exactly one response to each request, and
    error messages without internals."""

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        self.fm.builtin_features.clear()
        self.answered: set[int | str] = set()
        """Ids of requests that were answered before the protocol library was loaded, and must
        not be answered again."""
        self.initialize_params: dict[str, Any] = {}
        """Parameters of the handled message as the client sent them; pygls drops keys that its
        types do not have."""
        self.initialized = False
        self.notebooks = NotebookTranslator()
        self.on_broken: Callable[[], None] = lambda: None
        self._open_requests: set[int | str] = set()

    # -- incoming messages --------------------------------------------------------------------

    def structure_message(self, data: dict[str, Any]) -> Any:
        if data.get("jsonrpc") and data.get("method") == types.INITIALIZE:
            self.initialize_params = data.get("params") or {}
        try:
            return super().structure_message(self._translate_notebook(data))
        except JsonRpcException as error:
            # pygls would never answer a request with bad parameters.
            return _MalformedMessage(data.get("id"), str(data.get("method", "")), error)

    def _translate_notebook(self, data: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.notebooks.translate_incoming(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise JsonRpcInvalidParams(f"Invalid message about a notebook: {error!r}") from error

    def _handle_request(self, msg_id: int | str, method_name: str, params: Any) -> None:
        self._open_requests.add(msg_id)
        if not self.initialized and method_name != types.INITIALIZE:
            error = JsonRpcServerNotInitialized("The first request must be initialize.")
            self._send_response(msg_id, error=error.to_response_error())
            return
        if self.initialized and method_name == types.INITIALIZE:
            error_again = types.ResponseError(
                _INVALID_REQUEST, "The server is initialized already."
            )
            self._send_response(msg_id, error=error_again)
            return
        try:
            self._get_handler(method_name)
        except JsonRpcMethodNotFound as error:
            # An unknown method is not an error of the server, so it is not logged.
            self._send_response(msg_id, error=error.to_response_error())
            return
        super()._handle_request(msg_id, method_name, params)

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if not self.initialized and method_name != types.EXIT:
            return
        super()._handle_notification(method_name, params)

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        # ``_request_futures`` also has the requests of the server, which the client must not
        # cancel.
        if msg_id in self._open_requests and msg_id in self._request_futures:
            super()._handle_cancel_notification(msg_id)

    def _handle_response(
        self, msg_id: int | str, result: Any | None = None, error: Any | None = None
    ) -> None:
        # The answer may come after the waiting task was cancelled.
        future = self._request_futures.get(msg_id)
        if future is None or future.done():
            self._request_futures.pop(msg_id, None)
            return
        super()._handle_response(msg_id, result, error)

    def cancel_open(self) -> None:
        """Answer all open requests of the client, except the request being handled, with the
        error "cancelled"."""
        for msg_id in list(self._open_requests):
            future = self._request_futures.get(msg_id)
            if msg_id != self.msg_id and future is not None:
                future.cancel()

    def shut_down(self) -> None:
        """Reject all messages except ``exit`` from now on."""
        self.cancel_open()
        self._shutdown = True

    @property
    def is_shut_down(self) -> bool:
        return self._shutdown

    def handle_message(self, message: Any) -> None:
        if isinstance(message, _MalformedMessage):
            if message.id is not None and message.method:
                self._open_requests.add(message.id)
                error = types.ResponseError(
                    _INVALID_PARAMS, f"The parameters of {message.method} are invalid."
                )
                self._send_response(message.id, error=error)
            else:
                logger.warning("The parameters of %r are invalid.", message.method)
            return
        if self._shutdown and hasattr(message, "id") and hasattr(message, "method"):
            error = types.ResponseError(_INVALID_REQUEST, "The server is shutting down.")
            self._open_requests.add(message.id)
            self._send_response(message.id, error=error)
            return
        super().handle_message(message)

    # -- outgoing messages --------------------------------------------------------------------

    def _send_response(
        self, msg_id: int | str, result: Any | None = None, error: Any | None = None
    ) -> None:
        """Send a response with ``result`` or ``error`` to a request of the client, unless the
        request was answered before.
        """
        if msg_id in self.answered:
            self.answered.discard(msg_id)
            self._open_requests.discard(msg_id)
            return
        if msg_id not in self._open_requests:
            logger.warning("A second response to request %r was dropped.", msg_id)
            return
        if error is not None and error.code == _INTERNAL_ERROR:
            error = types.ResponseError(
                _INTERNAL_ERROR, "Internal error of fullgraph; the log has the details."
            )
        if error is None and isinstance(result, dict):
            # The result is already JSON data; converting it would visit each value.
            self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "result": result})
        else:
            super()._send_response(msg_id, result, error)
        # The request counts as answered only now: if the result cannot be serialized, pygls answers
        # it with an error.
        self._open_requests.discard(msg_id)

    def _send_data(self, data: Any) -> None:
        body = json.dumps(data, default=self._serialize_message)
        if not self.notebooks.is_used:
            self._write_body(body)
            return
        for message in self.notebooks.translate_outgoing(json.loads(body)):
            self._write_body(json.dumps(message))

    def _write_body(self, text: str) -> None:
        if self.writer is None:
            return
        body = text.encode()
        try:
            self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        except (ConnectionError, OSError):
            # Writing failed because the client has disconnected.
            self.on_broken()

    def send_notification(self, method: str, params: Any) -> None:
        """Send a notification to the client; ``params`` is an object of lsprotocol or JSON data."""
        if hasattr(params, "__attrs_attrs__"):
            params = self._converter.unstructure(params)
        self._send_data({"jsonrpc": self.VERSION, "method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        """Send a request to the client and return its answer.

        If the waiting task is cancelled, the answer is ignored.

        Raises:
            JsonRpcException: The client answered with an error.
        """
        answer: Future[Any] = self.send_request(method, params)
        waiting = asyncio.wrap_future(answer)
        # Retrieve the error in any case, so that asyncio does not log it as never retrieved.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(waiting)


class ClientErrorFilter(logging.Filter):
    """Log filter that drops messages of pygls about errors that were sent to the client."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        malformed = str(record.msg).startswith("Unable to deserialize message")
        return not (malformed or isinstance(error, JsonRpcException))


@dataclass(frozen=True)
class _MalformedMessage:
    """A message from the client whose parameters do not fit its method."""

    id: int | str | None
    method: str
    error: JsonRpcException
