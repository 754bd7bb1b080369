"""Places in the analyzed text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """A place in the analyzed text: zero-based line, zero-based UTF-8 byte offset in it."""

    line: int
    byte: int


@dataclass(frozen=True, order=True)
class Range:
    """Half open: ``end`` is the first position that is not part of it."""

    start: Position
    end: Position


@dataclass(frozen=True)
class Frame:
    """One line of a user stack, outermost first in every list of frames.

    ``end_byte`` is -1 where the interpreter gave no columns; then ``byte`` is the indentation.
    """

    path: str
    function: str
    line: int
    byte: int = 0
    end_line: int = -1
    end_byte: int = -1
    text: str = ""


def place_words(range_: Range) -> str:
    """How an identity names the range of its finding, so that it can move with the text."""
    start, end = range_.start, range_.end
    return f"{start.line}:{start.byte}-{end.line}:{end.byte}"
