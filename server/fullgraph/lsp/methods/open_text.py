"""``textDocument/didOpen``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_DID_OPEN


def handle(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    text = params.text_document
    server.session.open(text.uri, text.text, text.version, text.language_id)
