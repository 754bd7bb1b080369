"""``textDocument/didChange``: the user edited an open file."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.session.documents import TextChange

METHOD = types.TEXT_DOCUMENT_DID_CHANGE


def handle(context: ServerContext, params: types.DidChangeTextDocumentParams) -> None:
    changes = [_to_change(change) for change in params.content_changes]
    context.session.files.change(params.text_document.uri, changes, params.text_document.version)


def _to_change(change: types.TextDocumentContentChangeEvent) -> TextChange:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return TextChange(change.text)
    start, end = change.range.start, change.range.end
    return TextChange(change.text, (start.line, start.character), (end.line, end.character))
