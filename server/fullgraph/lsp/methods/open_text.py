"""``textDocument/didOpen``: the user opened a file."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.TEXT_DOCUMENT_DID_OPEN


def handle(context: ServerContext, params: types.DidOpenTextDocumentParams) -> None:
    text = params.text_document
    context.session.open(text.uri, text.text, text.version, text.language_id)
