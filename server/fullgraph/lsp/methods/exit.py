"""``exit``: stop the server."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.EXIT


def handle(context: ServerContext, params: None) -> None:
    context.connection.stop()
