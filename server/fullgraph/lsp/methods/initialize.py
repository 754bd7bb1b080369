"""``initialize``: read the client's capabilities and workspace folders."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import initialize_result
from fullgraph.session.capabilities import ClientCapabilities

METHOD = types.INITIALIZE


def handle(context: ServerContext, params: types.InitializeParams) -> dict[str, Any]:
    raw = context.connection.protocol.initialize_params
    client = ClientCapabilities.from_capabilities(raw.get("capabilities"))
    folders = [folder.uri for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [params.root_uri]
    context.session.initialize(client, raw.get("initializationOptions"), folders)
    context.connection.protocol.initialized = True
    context.connection.protocol.notebooks.encoding = client.encoding
    context.connection.watch_parent(params.process_id)
    return initialize_result(client)
