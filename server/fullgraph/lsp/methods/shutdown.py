"""``shutdown``: cancel all work; only ``exit`` may follow."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.SHUTDOWN


def handle(context: ServerContext, params: None) -> None:
    context.connection.protocol.shut_down()
    context.connection.run_in_background(context.session.close())
