"""``$/setTrace``: stores the value without any effect; clients send it although the server does not
support it."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.SET_TRACE


def handle(context: ServerContext, params: types.SetTraceParams) -> None:
    context.connection.protocol.trace = params.value
