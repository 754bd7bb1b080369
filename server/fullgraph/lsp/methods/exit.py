"""``exit``: the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.EXIT


def handle(server: Server, params: None) -> None:
    server.stop()
