"""``exit``: stop the server."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.EXIT


def handle(context: Context, params: None) -> None:
    context.connection.stop()
