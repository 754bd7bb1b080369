"""``initialize``: who the client is, what it can, where it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fullgraph.lsp.server_capabilities import initialize_result
from fullgraph.session.capabilities import ClientCapabilities

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.INITIALIZE


def handle(server: Server, params: types.InitializeParams) -> dict[str, Any]:
    raw = server.protocol.initialize_params
    client = ClientCapabilities.read(raw.get("capabilities"))
    folders = [folder.uri for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [params.root_uri]
    server.session.initialize(client, raw.get("initializationOptions"), folders)
    server.protocol.initialized = True
    server.ready()
    server.watch_parent(params.process_id)
    return initialize_result(client)
