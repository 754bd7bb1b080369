"""``$/setTrace``: accepted, because clients send it unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.SET_TRACE


def handle(server: Server, params: types.SetTraceParams) -> None:
    server.protocol.trace = params.value
