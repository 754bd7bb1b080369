"""``textDocument/didSave``: the user saved a file."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.TEXT_DOCUMENT_DID_SAVE


def handle(context: ServerContext, params: types.DidSaveTextDocumentParams) -> None:
    context.session.files.save(params.text_document.uri)
