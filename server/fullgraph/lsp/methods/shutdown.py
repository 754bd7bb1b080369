"""``shutdown``: cancel all work; only ``exit`` may follow."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.SHUTDOWN


def handle(context: Context, params: None) -> None:
    context.connection.protocol.shut_down()
    context.connection.in_background(context.session.close())
