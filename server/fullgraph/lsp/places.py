"""Convert ranges of the engine to ranges of LSP."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.session.documents import Document, path_of
from fullgraph_engine.protocol import Range


def lsp_range(range_: Range, text: TextPositions, encoding: Encoding) -> types.Range:
    """Convert a range in UTF-8 bytes to a range in units of ``encoding``."""
    return types.Range(
        start=types.Position(*text.character(range_.start, encoding)),
        end=types.Position(*text.character(range_.end, encoding)),
    )


def range_in(document: Document, range_: Range) -> types.Range:
    """Convert a range in UTF-8 bytes to the position encoding of the document's client."""
    return lsp_range(range_, document.positions, document.encoding)


class OtherTexts:
    """Reads the texts of other files that findings refer to.

    An open file has the text of the editor. Files on disk are cached by modification time.
    """

    def __init__(self) -> None:
        self._read: dict[Path, tuple[float, TextPositions]] = {}

    def location(
        self, path: str, range_: Range, here: Document, open_: dict[str, Document]
    ) -> types.Location | None:
        """Return the location of a range; None if the file cannot be read."""
        if path == here.name:
            return types.Location(here.uri, range_in(here, range_))
        for document in open_.values():
            if path_of(document.uri) == Path(path):
                return types.Location(document.uri, range_in(document, range_))
        text = self._positions(Path(path))
        if text is None:
            return None
        return types.Location(Path(path).as_uri(), lsp_range(range_, text, here.encoding))

    def _positions(self, path: Path) -> TextPositions | None:
        if not path.is_absolute():
            return None
        try:
            modified = path.stat().st_mtime
            known = self._read.get(path)
            if known is None or known[0] != modified:
                known = modified, TextPositions(path.read_text(encoding="utf-8", errors="replace"))
                self._read[path] = known
        except (OSError, ValueError):
            return None
        return known[1]
