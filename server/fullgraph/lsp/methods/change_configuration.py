"""``workspace/didChangeConfiguration``: the client's settings changed."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.WORKSPACE_DID_CHANGE_CONFIGURATION


def handle(context: ServerContext, params: types.DidChangeConfigurationParams) -> None:
    if context.configuration.can_request:
        # Clients that answer requests for settings only send a hint here, often with empty
        # settings.
        context.configuration.request_settings()
    else:
        context.configuration.accept_settings(params.settings)
