"""``workspace/didChangeConfiguration``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_DID_CHANGE_CONFIGURATION


def handle(server: Server, params: types.DidChangeConfigurationParams) -> None:
    if server.configuration.may_be_asked:
        # The notification of such clients is a hint; what they send along is often nothing.
        server.configuration.ask()
    else:
        server.configuration.take(params.settings)
