"""``shutdown``: cancel all work of the server; afterwards only the notification ``exit`` is
accepted."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.SHUTDOWN


def handle(context: ServerContext, params: None) -> None:
    context.connection.protocol.shut_down()
    context.connection.run_in_background(context.session.close())
