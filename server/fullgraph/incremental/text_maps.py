"""Map lines and source ranges of a file to a later version of it.

There are two kinds of maps. ``AppliedEdit`` knows only which part of the text was replaced, so it
loses ranges that the edit touches. ``CodeMap`` compares the tokens of two versions with the same
code, so it also finds ranges in statements whose layout has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fullgraph.incremental.moves import Kind, LineLost, Moves
from fullgraph_engine.protocol import Position, Range


class TextMap(Protocol):
    """Interface for a mapping of lines and source ranges of a file to a later version of it."""

    @property
    def compares_code(self) -> bool:
        """Whether the map compares the code of both versions, instead of only shifting positions.

        If it does, a removed line means that results may differ.
        """

    @property
    def first_line(self) -> int:
        """First line that an edit may have changed or moved; lines above it keep their numbers."""

    def move_line(self, line: int) -> int:
        """Return the new number of a line.

        Raises:
            LineLost: The line was removed, split or edited.
        """

    def move_range(self, range_: Range, kind: Kind = "either") -> Range:
        """Return the new position of a source range; ``kind`` says what the range covers.

        Raises:
            LineLost: The range does not have a counterpart.
        """

    def extend_range(self, range_: Range) -> Range:
        """Return the new range of a whole function, which may have grown or shrunk through the
        edit.
        """

    def has_edited_line(self, range_: Range) -> bool:
        """Whether an edit changed any line of the range."""

    def check_text(self, text: str) -> None:
        """Check that a result, such as a message, does not quote changed code.

        Raises:
            LineLost: The text quotes code that the later version of the file writes in another way.
        """

    def line_text(self, line: int) -> str | None:
        """Return the text of a line of the later version; None if this map does not know it."""


@dataclass(frozen=True)
class AppliedEdit:
    """A map for one edit: the text from ``start`` to ``end`` was replaced by text up to
    ``new_end``.
    """

    start: Position
    end: Position
    new_end: Position

    @property
    def compares_code(self) -> bool:
        return False

    @property
    def first_line(self) -> int:
        return self.start.line

    def move_line(self, line: int) -> int:
        if line > self.end.line or (self._has_whole_lines and line == self.end.line):
            return line + self._added_lines
        if line < self.start.line:
            return line
        raise LineLost(line)

    def move_range(self, range_: Range, kind: Kind = "either") -> Range:
        if self.end <= range_.start:
            return Range(self._shift_position(range_.start), self._shift_position(range_.end))
        if self.start >= range_.end:
            return range_
        raise LineLost(range_.start.line)

    def extend_range(self, range_: Range) -> Range:
        try:
            return self.move_range(range_)
        except LineLost:
            end = range_.end
            return Range(range_.start, Position(end.line + self._added_lines, end.byte))

    def has_edited_line(self, range_: Range) -> bool:
        last = self.end.line - 1 if self._has_whole_lines else self.end.line
        return range_.end.line >= self.start.line and range_.start.line <= last

    def check_text(self, text: str) -> None:
        """Accept every text: this map cannot find out which code a text quotes."""

    def line_text(self, line: int) -> str | None:
        return None

    @property
    def _added_lines(self) -> int:
        return self.new_end.line - self.end.line

    @property
    def _has_whole_lines(self) -> bool:
        """Whether the edit only inserted or removed whole lines."""
        return self.start.byte == self.end.byte == self.new_end.byte == 0

    def _shift_position(self, position: Position) -> Position:
        if position.line > self.end.line:
            return Position(position.line + self._added_lines, position.byte)
        return Position(self.new_end.line, self.new_end.byte + position.byte - self.end.byte)


class CodeMap:
    """A map from a file to a later version of it, in which the mapped statements have the same
    code.

    ``moves`` maps the lines and ranges of the statements, and ``lines`` are the lines of the later
    version.
    """

    compares_code = True
    first_line = 0

    def __init__(self, moves: Moves, lines: Sequence[str]) -> None:
        self._moves, self._lines = moves, lines
        parts = moves.rewritten_parts
        formatted = [part for part in parts if part.is_formatted]
        self.is_formatted = bool(formatted)
        """True if the two versions differ in line breaks within a statement."""
        self._rewritten = {text for part in parts for text in part.rewritten_pieces()}
        self._joined = {text for part in formatted for text in part.joined_pieces()}
        self._lines_gone = {text for part in formatted for text in part.lines_gone()}

    def move_line(self, line: int) -> int:
        return line if line < 0 else self._moves.move_line(line)

    def move_range(self, range_: Range, kind: Kind = "either") -> Range:
        return self._moves.move_range(range_, kind)

    def extend_range(self, range_: Range) -> Range:
        return self._moves.move_range(range_, "instruction")

    def has_edited_line(self, range_: Range) -> bool:
        return False

    def check_text(self, text: str) -> None:
        if any(piece in text for piece in self._rewritten):
            raise LineLost
        if self._joined and any(piece in "".join(text.split()) for piece in self._joined):
            raise LineLost
        if self._lines_gone and not self._lines_gone.isdisjoint(_quoted_lines(text)):
            raise LineLost

    def line_text(self, line: int) -> str | None:
        if line >= len(self._lines):
            raise LineLost(line)  # the line number refers to another text with the same path
        return self._lines[line]


def _quoted_lines(text: str) -> Iterator[str]:
    """Yield the parts of a message that may quote a line of the file.

    These are lines without their indentation and torch's prefix, and text between backticks.
    """
    if "\n" in text:
        yield from (line.rpartition(", code: ")[2].strip() for line in text.split("\n"))
    yield from text.split("`")[1::2]
