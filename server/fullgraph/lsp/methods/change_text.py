"""``textDocument/didChange``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.session.documents import Change

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_DID_CHANGE


def handle(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    changes = [_change(change) for change in params.content_changes]
    server.session.change(params.text_document.uri, changes, params.text_document.version)


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return Change(change.text)
    start, end = change.range.start, change.range.end
    return Change(change.text, (start.line, start.character), (end.line, end.character))
