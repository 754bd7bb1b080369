"""``textDocument/didClose``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_DID_CLOSE


def handle(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    server.session.close_text(params.text_document.uri)
