"""``workspace/didChangeConfiguration``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.lsp import configuration

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_DID_CHANGE_CONFIGURATION


def handle(server: Server, params: types.DidChangeConfigurationParams) -> None:
    if server.session.client.configuration:
        # The notification of such clients is a hint; what they send along is often nothing.
        server.in_background(configuration.fetch(server))
    else:
        configuration.take(server, params.settings)
