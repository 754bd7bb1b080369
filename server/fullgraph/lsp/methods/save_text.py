"""``textDocument/didSave``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_DID_SAVE


def handle(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    server.session.save(params.text_document.uri)
