"""Convert ranges of a checked file, and of files that its findings mention, to UTF-16
characters."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.render.checked import CheckedFile
from fullgraph_engine.protocol import Position, Range


@dataclass(frozen=True)
class Span:
    """A source range of zero-based lines and UTF-16 characters; the end is exclusive."""

    line: int
    character: int
    end_line: int
    end_character: int


def file_span(file: CheckedFile, path: str, place: Range) -> Span:
    """Convert a range in the file at ``path`` to UTF-16 characters.

    The file is the checked one (``file``), or another one as it is on disk now.
    """
    text = file.text if path in (file.path, file.absolute) else _read_positions(path)
    return text_span(text, place)


def text_span(text: TextPositions | None, place: Range) -> Span:
    """Convert a range in UTF-8 bytes to UTF-16 characters of ``text``; unchanged if the text is
    unknown."""
    line, character = _utf16_position(text, place.start)
    end_line, end_character = _utf16_position(text, place.end)
    return Span(line, character, end_line, end_character)


def _utf16_position(text: TextPositions | None, position: Position) -> tuple[int, int]:
    if text is None:
        return position.line, position.byte
    return text.character(position, Encoding.UTF16)


@functools.lru_cache(maxsize=64)
def _read_positions(path: str) -> TextPositions | None:
    try:
        return TextPositions(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def shown_path(file: CheckedFile, path: str) -> str:
    """Return a path for display: the checked file's path as the user wrote it, other paths
    unchanged.
    """
    return file.path if path in (file.path, file.absolute) else path
