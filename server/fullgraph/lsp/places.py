"""Convert source ranges of the engine (UTF-8 bytes) to ranges of LSP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document, path_of
from fullgraph_engine.protocol import Range, TextEdit


def lsp_range(range_: Range, text: TextPositions, encoding: Encoding) -> types.Range:
    """Convert a range in UTF-8 bytes of ``text`` to a range in units of ``encoding``."""
    return types.Range(
        start=types.Position(*text.character(range_.start, encoding)),
        end=types.Position(*text.character(range_.end, encoding)),
    )


def range_in(document: Document, range_: Range) -> types.Range:
    """Convert a range in UTF-8 bytes to the position encoding negotiated with the client."""
    return lsp_range(range_, document.positions, document.encoding)


def range_json(range_: types.Range) -> dict[str, Any]:
    """Convert a range of LSP to JSON data."""
    return {
        "start": {"line": range_.start.line, "character": range_.start.character},
        "end": {"line": range_.end.line, "character": range_.end.character},
    }


def data_value(data: Any, key: str) -> Any:
    """Return the value under ``key`` in an item's data, which clients send back unchanged; None if
    it is missing."""
    return data.get(key) if isinstance(data, Mapping) else getattr(data, key, None)


def position_key(position: types.Position) -> tuple[int, int]:
    """Return a key that sorts positions in the order of the text."""
    return position.line, position.character


class OtherTexts:
    """Reads the texts of files, other than the displayed one, that findings refer to.

    An open file has the text in the editor. Files on disk are cached by modification time.
    """

    def __init__(self) -> None:
        self._cache: dict[Path, tuple[float, TextPositions]] = {}

    def find_location(
        self, path: str, range_: Range, document: Document, open_documents: dict[str, Document]
    ) -> types.Location | None:
        """Return the LSP location of a range in UTF-8 bytes in the file at ``path``; None if the
        file cannot be read."""
        if path == document.name:
            return types.Location(document.uri, range_in(document, range_))
        for open_document in open_documents.values():
            if path_of(open_document.uri) == Path(path):
                return types.Location(open_document.uri, range_in(open_document, range_))
        text = self._read_positions(Path(path))
        if text is None:
            return None
        return types.Location(Path(path).as_uri(), lsp_range(range_, text, document.encoding))

    def _read_positions(self, path: Path) -> TextPositions | None:
        if not path.is_absolute():
            return None
        try:
            modified = path.stat().st_mtime
            known = self._cache.get(path)
            if known is None or known[0] != modified:
                known = modified, TextPositions(path.read_text(encoding="utf-8", errors="replace"))
                self._cache[path] = known
        except (OSError, ValueError):
            return None
        return known[1]


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
