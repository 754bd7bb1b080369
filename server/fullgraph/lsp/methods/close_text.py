"""``textDocument/didClose``: the user closed a file."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.TEXT_DOCUMENT_DID_CLOSE


def handle(context: ServerContext, params: types.DidCloseTextDocumentParams) -> None:
    context.session.close_text(params.text_document.uri)
