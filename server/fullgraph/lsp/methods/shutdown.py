"""``shutdown``: end all work; only ``exit`` follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.SHUTDOWN


def handle(server: Server, params: None) -> None:
    server.protocol.shut_down()
    server.in_background(server.session.close())
