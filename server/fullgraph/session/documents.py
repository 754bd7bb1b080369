"""Open documents of the editor, with exactly the text that the editor shows."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from fullgraph.domain.positions import Encoding, TextPositions, text_hash
from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.store.files import is_on_disk
from fullgraph_engine.protocol import OpenFile, Position
from fullgraph_engine.protocol.files import FileState, file_state

_LINE_END = re.compile(r"\r\n|\r|\n")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class TextChange:
    """One change of a document; without a range it replaces the whole text. Positions count
    characters in the encoding that the client uses.
    """

    text: str
    start: tuple[int, int] | None = None
    end: tuple[int, int] | None = None


class Document:
    """An open document of the editor; its text changes only by notifications of the editor."""

    def __init__(self, uri: str, text: str, version: int, encoding: Encoding) -> None:
        self.uri = uri
        self.version = version
        self.encoding = encoding
        self.focus = 0
        """Line of the last edit, counted from 0."""
        self._set_text(text)

    def _set_text(self, text: str) -> None:
        if _HALF.search(text):
            # Two edits may insert the two surrogates of a pair; the engine needs one character.
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        self.text = text
        self._positions: TextPositions | None = None
        self._hash = ""

    @property
    def positions(self) -> TextPositions:
        if self._positions is None:
            self._positions = TextPositions(self.text)
        return self._positions

    @property
    def hash(self) -> str:
        if not self._hash:
            self._hash = text_hash(self.text)
        return self._hash

    @property
    def generation(self) -> str:
        return f"{self.version}:{self.hash}"

    @property
    def path(self) -> Path | None:
        """Path of the file, which may not exist; None for URIs such as ``untitled:``."""
        return path_of(self.uri)

    @property
    def name(self) -> str:
        """Name used in engine requests: the path, or the bare name that the editor shows."""
        path = self.path
        if path is not None:
            return str(path)
        return unquote(urlsplit(self.uri).path).rsplit("/", 1)[-1] or "untitled"

    def apply_changes(self, changes: Sequence[TextChange], version: int) -> list[AppliedEdit]:
        """Apply changes in order; return each as an edit whose positions are in UTF-8 bytes of the
        text before the change.
        """
        edits = []
        for change in changes:
            edit = self._apply_change(change)
            if edit is not None:
                edits.append(edit)
                self.focus = edit.start.line
        self.version = version
        return edits

    def _apply_change(self, change: TextChange) -> AppliedEdit | None:
        if change.start is None or change.end is None:
            return self._replace_all(change.text)
        start = self.positions.position(*change.start, self.encoding)
        end = self.positions.position(*change.end, self.encoding)
        first, last = self.positions.offset(start), self.positions.offset(end)
        if last < first:
            start, end, first, last = end, start, last, first
        if self.text[first:last] == change.text:
            return None
        edit = AppliedEdit(start, end, _end_position(start, change.text))
        self._set_text(self.text[:first] + change.text + self.text[last:])
        return edit

    def _replace_all(self, text: str) -> AppliedEdit | None:
        """Replace the whole text; return the edit of the part that differs, None if the texts are
        equal.
        """
        old = self.text
        if old == text:
            return None
        shorter = min(len(old), len(text))
        first = _common_prefix_length(old, text, shorter)
        tail = _common_prefix_length(old[::-1], text[::-1], shorter - first)
        start = self._find_position(first)
        end = self._find_position(len(old) - tail)
        edit = AppliedEdit(start, end, _end_position(start, text[first : len(text) - tail]))
        self._set_text(text)
        return edit

    def offset_at(self, line: int, character: int) -> int:
        """Return the index in the text of a position, whose ``character`` is counted in the
        client's encoding. Positions outside of the text are moved to its nearest end.
        """
        return self.positions.offset(self.positions.position(line, character, self.encoding))

    def position_at(self, offset: int) -> tuple[int, int]:
        """Return (line, character) of an index in the text; the character is counted in the
        client's encoding.
        """
        return self.positions.character(self.positions.position_at(offset), self.encoding)

    def _find_position(self, offset: int) -> Position:
        return _end_position(Position(0, 0), self.text[:offset])


def _end_position(start: Position, text: str) -> Position:
    """Return the position where a text that begins at ``start`` ends."""
    *lines, last = _LINE_END.split(text) if "\r" in text else text.split("\n")
    width = len(last.encode("utf-8", "surrogatepass"))
    if lines:
        return Position(start.line + len(lines), width)
    return Position(start.line, start.byte + width)


def _common_prefix_length(one: str, other: str, limit: int) -> int:
    """Return the length of the common prefix of two texts, at most ``limit``. Bisection is fast,
    because Python compares slices fast."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_LONGEST_NAME, _LONGEST_PATH = 255, 4096
"""Maximum number of bytes of a file name, and of a path, on Linux and macOS; longer ones raise
errors.
"""


class ImportableText:
    """The text of a document that other files import: its latest text without a syntax error."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.text = document.text
        self._on_disk: tuple[tuple[FileState, str], bool] | None = None
        """Result of the last comparison of the text with the file on disk: the compared file state
        and text, and whether they were equal. None before the first.
        """

    def update(self) -> None:
        """Use the document's current text, whose syntax the caller has checked, for imports from
        now on.
        """
        self.text = self._document.text

    @property
    def unsaved(self) -> OpenFile | None:
        """The text for files that import this one; None if the file on disk has the same text."""
        path = self._document.path
        if path is None:
            return None
        compared = file_state(str(path)), self.text
        if self._on_disk is None or self._on_disk[0] != compared:
            self._on_disk = compared, is_on_disk(path, self.text)
        return None if self._on_disk[1] else OpenFile(self._document.name, self.text)


def path_of(uri: str) -> Path | None:
    """Return the path of a ``file:`` URI; None for other URIs and for paths too long for any file
    system.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file" or not parts.path:
        # Neovim names an unnamed buffer ``file://``.
        return None
    host = f"//{parts.netloc}" if parts.netloc and parts.netloc != "localhost" else ""
    # urlsplit cuts at "#" and "?"; clients that do not escape these characters mean them as a part
    # of the path.
    rest = (f"?{parts.query}" if parts.query else "") + (
        f"#{parts.fragment}" if parts.fragment else ""
    )
    path = url2pathname(host + parts.path + rest)
    if "\0" in path or any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.split("/")):
        return None
    return Path(path) if len(os.fsencode(path)) <= _LONGEST_PATH else None
