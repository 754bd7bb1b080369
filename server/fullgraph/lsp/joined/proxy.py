"""A language server that passes messages between one client and two servers: fullgraph's and
another."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fullgraph.lsp.diagnostics import SOURCE
from fullgraph.lsp.joined import CannotStart
from fullgraph.lsp.joined.merging import (
    JOINED,
    RESOLVED,
    ServerName,
    mark_item,
    merge_capabilities,
    unmark_item,
)
from fullgraph.lsp.joined.servers import JoinedServer, RequestFailed
from fullgraph.lsp.joined.streams import encode_message, read_message

_METHOD_NOT_FOUND = -32601
_WARNING = 2
"""Type of warnings in ``window/showMessage``."""


class ServerProxy:
    """Passes messages between one client and two servers.

    ``command`` starts the other server. ``write`` sends bytes to the client.
    """

    def __init__(self, command: tuple[str, ...], write: Callable[[bytes], None]) -> None:
        self._command = command
        self._write = write
        self._servers: dict[ServerName, JoinedServer] = {}
        self._numbers = itertools.count(1)
        self._of_servers: dict[str, tuple[JoinedServer, object]] = {}
        """Requests of the servers to the client, by the id that the client sees: the server and the
        id that it chose."""
        self._diagnostics: dict[str, dict[ServerName, list[Any]]] = {}
        """Last diagnostics of each server, by URI."""
        self._registered: dict[str, ServerName] = {}
        """Servers that registered a method dynamically, by the method."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader) -> int:
        """Serve the client until it disconnects; return the exit status of fullgraph's server.

        Raises:
            CannotStart: The command of the other server cannot be executed.
        """
        try:
            self._servers["other"] = await JoinedServer.start("other", self._command)
        except OSError as error:
            raise CannotStart(
                f"Cannot start `{shlex.join(self._command)}`: {error.strerror or error}; check the "
                "command after --with."
            ) from error
        own = (sys.executable, "-m", "fullgraph", "server", "--stdio")
        self._servers["fullgraph"] = await JoinedServer.start("fullgraph", own)
        runs = [asyncio.create_task(self._run_server(one)) for one in self._servers.values()]
        client = asyncio.create_task(self._serve_client(reader))
        # Run until the client disconnects or fullgraph's server ends; the client can continue
        # without the other server.
        await asyncio.wait({client, runs[1]}, return_when=asyncio.FIRST_COMPLETED)
        client.cancel()
        statuses = [await one.close() for one in self._servers.values()]
        await asyncio.gather(client, *runs, return_exceptions=True)
        return statuses[1]

    # -- messages of the client ---------------------------------------------------------------

    async def _serve_client(self, reader: asyncio.StreamReader) -> None:
        while (message := await read_message(reader)) is not None:
            method, id_ = message.get("method"), message.get("id")
            if method is None:
                self._answer_server(message)
            elif id_ is None:
                for server in self._servers.values():
                    server.send(message)
                if method == "exit":
                    return
            elif method == "initialize":
                self._reply(id_, await self._initialize(id_, message.get("params") or {}))
            else:
                self._begin_request(id_, method, message.get("params"))

    def _answer_server(self, message: dict[str, Any]) -> None:
        """Pass the answer of the client to the server that sent the request."""
        known = self._of_servers.pop(str(message.get("id")), None)
        if known is not None:
            server, id_ = known
            server.send({**message, "id": id_})

    async def _initialize(self, id_: object, params: dict[str, Any]) -> Any:
        """Initialize both servers with the same position encoding, and return the joint result."""
        params = _without_pull_diagnostics(params)
        other, own = self._servers["other"], self._servers["fullgraph"]
        result = await self._initialize_server(other, id_, params) or {}
        other.capabilities = result.get("capabilities") or {}
        encoding = other.capabilities.get("positionEncoding", "utf-16")
        params = _with_encoding(params, encoding)
        own_result = await self._initialize_server(own, id_, params) or {}
        own.capabilities = own_result.get("capabilities") or {}
        capabilities = merge_capabilities(own.capabilities, other.capabilities)
        return {**own_result, "capabilities": capabilities}

    async def _initialize_server(self, server: JoinedServer, id_: object, params: Any) -> Any:
        try:
            return await server.request(id_, "initialize", params)
        except RequestFailed as failed:
            self._show_warning(f"`{server.name}` does not answer `initialize`: {failed.error}")
            return None

    def _begin_request(self, id_: object, method: str, params: Any) -> None:
        """Send a request to its servers now, in the order of the client's messages, and answer it
        later."""
        join: Callable[[Mapping[ServerName, Any]], Any] | None = None
        own, other = self._servers["fullgraph"], self._servers["other"]
        targets: list[JoinedServer] = []
        if method == "shutdown":
            targets, join = [other, own], lambda answers: None
        elif method in JOINED:
            capability, join = JOINED[method]
            targets = [one for one in (other, own) if one.offers(capability)]
        elif method in RESOLVED and isinstance(params, Mapping):
            name, params = unmark_item(params)
            if not self._servers[name].offers(RESOLVED[method], "resolveProvider"):
                self._reply(id_, params)
                return
            targets, join = [self._servers[name]], _marking(name)
        else:
            targets = [self._owner(method, params)]
        futures = {
            one.name: one.request(id_, method, _params_for(one.name, method, params))
            for one in targets
        }
        task = asyncio.create_task(self._finish_request(id_, futures, join))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _owner(self, method: str, params: Any) -> JoinedServer:
        """Return the server that answers a request if only one of the two servers can answer it."""
        own, other = self._servers["fullgraph"], self._servers["other"]
        if method.startswith("fullgraph/") or method == "workspace/textDocumentContent":
            return own
        if method == "workspace/executeCommand" and isinstance(params, Mapping):
            known = own.capabilities.get("executeCommandProvider") or {}
            return own if params.get("command") in known.get("commands", ()) else other
        if method.startswith("textDocument/semanticTokens"):
            return other if other.offers("semanticTokensProvider") else own
        return self._servers[self._registered.get(method, "other")]

    async def _finish_request(
        self,
        id_: object,
        futures: Mapping[ServerName, asyncio.Future[Any]],
        join: Callable[[Mapping[ServerName, Any]], Any] | None,
    ) -> None:
        """Answer a request after all servers have answered; send an error only if no server has a
        result."""
        answers: dict[ServerName, Any] = {}
        error: Any = {
            "code": _METHOD_NOT_FOUND,
            "message": "Neither language server supports this request.",
        }
        for name, future in futures.items():
            try:
                answers[name] = await future
            except RequestFailed as failed:
                error = failed.error
        if futures and not answers:
            self._send_client({"jsonrpc": "2.0", "id": id_, "error": error})
        else:
            self._reply(id_, join(answers) if join else next(iter(answers.values()), None))

    # -- messages of the servers --------------------------------------------------------------

    async def _run_server(self, server: JoinedServer) -> None:
        await server.run(self._handle_server_message)
        if server.name == "other":
            status = await server.process.wait()
            for uri in list(self._diagnostics):
                self._publish(uri, "other", [])
            self._show_warning(
                f"`{shlex.join(self._command)}` has ended with status {status}; only fullgraph's "
                "server is left. Restart the server in the editor."
            )

    def _handle_server_message(self, server: JoinedServer, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params")
        if method == "textDocument/publishDiagnostics" and isinstance(params, Mapping):
            version = params.get("version")
            self._publish(params["uri"], server.name, params.get("diagnostics") or [], version)
        elif method == "$/cancelRequest" and isinstance(params, Mapping):
            self._cancel_of_server(server, params.get("id"))
        elif "id" in message:
            if method == "client/registerCapability":
                self._note_registrations(server, params)
            id_ = f"{server.name}-{next(self._numbers)}"
            self._of_servers[id_] = server, message["id"]
            self._send_client({**message, "id": id_})
        else:
            self._send_client(message)

    def _cancel_of_server(self, server: JoinedServer, id_: object) -> None:
        for number, sent in self._of_servers.items():
            if sent == (server, id_):
                cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
                self._send_client(cancel)

    def _note_registrations(self, server: JoinedServer, params: Any) -> None:
        registrations = params.get("registrations") if isinstance(params, Mapping) else None
        for one in registrations or ():
            self._registered[one["method"]] = server.name

    def _publish(
        self, uri: str, name: ServerName, diagnostics: list[Any], version: object = None
    ) -> None:
        """Publish the diagnostics of both servers for a file: a client replaces all earlier ones
        of the file."""
        known = self._diagnostics.setdefault(uri, {})
        known[name] = diagnostics
        joined = [one for each in known.values() for one in each]
        params: dict[str, Any] = {"uri": uri, "diagnostics": joined}
        if version is not None:
            params["version"] = version
        self._send_client(
            {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}
        )

    def _show_warning(self, message: str) -> None:
        params = {"type": _WARNING, "message": message}
        self._send_client({"jsonrpc": "2.0", "method": "window/showMessage", "params": params})

    def _reply(self, id_: object, result: Any) -> None:
        self._send_client({"jsonrpc": "2.0", "id": id_, "result": result})

    def _send_client(self, message: dict[str, Any]) -> None:
        self._write(encode_message(message))


def _marking(name: ServerName) -> Callable[[Mapping[ServerName, Any]], Any]:
    """Return the function that stores the name of its server in a resolved item."""

    def mark(answers: Mapping[ServerName, Any]) -> Any:
        item = answers.get(name)
        return mark_item(item, name) if isinstance(item, Mapping) else item

    return mark


def _params_for(name: ServerName, method: str, params: Any) -> Any:
    """Return the parameters of a request for one server; a request for code actions contains only
    the diagnostics of that server."""
    if method != "textDocument/codeAction" or not isinstance(params, Mapping):
        return params
    context = params.get("context") or {}
    diagnostics = [
        one
        for one in context.get("diagnostics", ())
        if (one.get("source") == SOURCE) == (name == "fullgraph")
    ]
    return {**params, "context": {**context, "diagnostics": diagnostics}}


def _without_pull_diagnostics(params: dict[str, Any]) -> dict[str, Any]:
    """Return ``initialize`` parameters without support for pulled diagnostics, so that servers push
    them."""
    return _change_capabilities(params, "textDocument", drop=("diagnostic",))


def _with_encoding(params: dict[str, Any], encoding: str) -> dict[str, Any]:
    """Return ``initialize`` parameters that offer only one position encoding."""
    return _change_capabilities(params, "general", positionEncodings=[encoding])


def _change_capabilities(
    params: dict[str, Any], section: str, drop: Iterable[str] = (), **values: Any
) -> dict[str, Any]:
    capabilities = params.get("capabilities") or {}
    found = {**(capabilities.get(section) or {}), **values}
    for key in drop:
        found.pop(key, None)
    return {**params, "capabilities": {**capabilities, section: found}}
