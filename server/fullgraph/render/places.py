"""Ranges of a checked file and of the files that its findings mention, in UTF-16 characters."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.render.checked import CheckedFile
from fullgraph_engine.protocol import Position, Range


@dataclass(frozen=True)
class Span:
    """A half-open range: zero-based lines, zero-based UTF-16 characters."""

    line: int
    character: int
    end_line: int
    end_character: int


def span(file: CheckedFile, path: str, place: Range) -> Span:
    """A range in the file itself, or in another one as it is on disk now."""
    text = file.text if path in (file.path, file.absolute) else _on_disk(path)
    return span_in(text, place)


def span_in(text: TextPositions | None, place: Range) -> Span:
    """A range of a text; in bytes where the text is not known."""
    line, character = _character(text, place.start)
    end_line, end_character = _character(text, place.end)
    return Span(line, character, end_line, end_character)


def _character(text: TextPositions | None, position: Position) -> tuple[int, int]:
    if text is None:
        return position.line, position.byte
    return text.character(position, Encoding.UTF16)


@functools.lru_cache(maxsize=64)
def _on_disk(path: str) -> TextPositions | None:
    try:
        return TextPositions(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def shown_path(file: CheckedFile, path: str) -> str:
    """A path of an event, the file's own as the user gave it."""
    return file.path if path in (file.path, file.absolute) else path
