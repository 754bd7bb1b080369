"""``$/setTrace``: accepted because clients send it without being asked; it has no effect."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.SET_TRACE


def handle(context: Context, params: types.SetTraceParams) -> None:
    context.connection.protocol.trace = params.value
