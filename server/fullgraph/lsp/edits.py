"""Convert edits of a text to the types of LSP."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from fullgraph.lsp.places import range_in
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document
from fullgraph_engine.protocol import TextEdit


def text_edits(document: Document, edits: Sequence[TextEdit]) -> list[types.TextEdit]:
    """Convert edits of an open text to LSP text edits, in the position encoding of its client."""
    return [types.TextEdit(range_in(document, edit.range), edit.text) for edit in edits]


def workspace_edit(
    client: ClientCapabilities, document: Document, edits: Sequence[TextEdit]
) -> types.WorkspaceEdit:
    """Convert edits of the current version of an open text to one LSP workspace edit, which a
    single undo reverts."""
    lsp_edits = text_edits(document, edits)
    if not client.document_changes:
        return types.WorkspaceEdit(changes={document.uri: lsp_edits})
    # The version of the text makes the client refuse the edit if the text has changed.
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, lsp_edits)])
