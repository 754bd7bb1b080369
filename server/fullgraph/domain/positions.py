"""Convert positions in a text between the engine's byte offsets and the client's characters.

The engine counts UTF-8 bytes of the text that it analyzed, as ``ast`` and bytecode do. Clients
count UTF-16 code units unless they negotiated another encoding.
"""

from __future__ import annotations

import bisect
import enum
import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from fullgraph_engine.protocol import Position, Range

# Only these characters end a line in Python's tokenizer and in LSP. ``str.splitlines`` also splits
# at form feeds and Unicode separators, which would shift all later lines.
_LINE_END = re.compile(r"\r\n|\r|\n")


def text_hash(text: str) -> str:
    """Return a hash of a text, which identifies its version: 16 hexadecimal digits."""
    # An editor may send half of a surrogate pair, which plain UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Encoding(str, enum.Enum):
    """Unit in which a client counts characters in a line, named as in the Language Server
    Protocol."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


class TextPositions:
    """The lines of one text, with conversions between bytes, code points and UTF-16 units.

    Positions outside of the text are clamped to the nearest one inside.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        # Most texts only have newlines, for which ``str.split`` is several times faster.
        self._lines = _LINE_END.split(text) if "\r" in text else text.split("\n")

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> str:
        """The whole text."""
        return self._text

    @property
    def lines(self) -> Sequence[str]:
        """All lines, without their line ends."""
        return self._lines

    def line(self, number: int) -> str:
        """Return a line without its line ending; empty for a line outside of the text."""
        return self._lines[number] if 0 <= number < len(self._lines) else ""

    def start(self, number: int) -> int:
        """Return the number of code points before a line; for a line after the last, the text's
        length.
        """
        return self._starts[min(max(number, 0), len(self._lines))]

    def offset(self, position: Position) -> int:
        """Return the number of code points in the text before ``position``, whose column counts
        UTF-8 bytes."""
        return self.start(position.line) + self.column(position)

    def text_in(self, range_: Range) -> str:
        """Return the part of the text inside a range."""
        return self._text[self.offset(range_.start) : self.offset(range_.end)]

    def position_at(self, offset: int) -> Position:
        """Convert an offset in code points to a position, whose column counts UTF-8 bytes."""
        number = min(bisect.bisect_right(self._starts, offset), len(self._lines)) - 1
        before = self._text[self._starts[number] : max(offset, 0)]
        return Position(number, _encoded_length(before, _BYTES))

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        if "\r" in self._text:
            ends: Iterable[int] = (end.end() for end in _LINE_END.finditer(self._text))
        else:
            ends = itertools.accumulate(len(line) + 1 for line in self._lines[:-1])
        return (0, *ends, len(self._text))

    def character(self, position: Position, encoding: Encoding) -> tuple[int, int]:
        """Convert a position, whose column counts UTF-8 bytes, to (line, character), which counts
        units of ``encoding``."""
        number = position.line
        if number < 0:
            return 0, 0
        if number >= len(self._lines):
            # In LSP, the range of a whole text may end one line after the last line.
            number = len(self._lines) - 1
            return number, _encoded_length(self._lines[number], encoding)
        line = self._lines[number]
        return number, _encoded_length(line[: self._column_in(line, position.byte)], encoding)

    def column(self, position: Position) -> int:
        """Return the number of code points between the start of its line and ``position``, whose
        column counts UTF-8 bytes.
        """
        return self._column_in(self.line(position.line), position.byte)

    def position(self, line: int, character: int, encoding: Encoding) -> Position:
        """Convert a line and a character offset in units of ``encoding`` to a position, whose
        column counts UTF-8 bytes."""
        if line < 0:
            return Position(0, 0)
        if line >= len(self._lines):
            line = len(self._lines) - 1
            return Position(line, _encoded_length(self._lines[line], Encoding.UTF8))
        text = self._lines[line]
        return Position(
            line, _encoded_length(text[: _code_points(text, character, encoding)], _BYTES)
        )

    def line_end(self, number: int) -> Position:
        """Return the position after the last character of a line."""
        return Position(number, _encoded_length(self.line(number), _BYTES))

    def end(self) -> Position:
        """Return the position after the last character of the text."""
        return self.line_end(len(self._lines) - 1)

    @staticmethod
    def _column_in(line: str, byte: int) -> int:
        return _code_points(line, byte, _BYTES)


_BYTES = Encoding.UTF8


def _encoded_length(text: str, encoding: Encoding) -> int:
    if encoding is Encoding.UTF32 or text.isascii():
        return len(text)
    if encoding is Encoding.UTF16:
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    # Half of a surrogate pair counts as three bytes, the length of its encoding.
    return len(text.encode("utf-8", "surrogatepass"))


def _code_points(line: str, offset: int, encoding: Encoding) -> int:
    """Return how many code points of ``line`` are before ``offset``, counted in units of
    ``encoding``.
    """
    if offset <= 0:
        return 0
    if encoding is Encoding.UTF32 or line.isascii():
        return min(offset, len(line))
    first, last = 0, len(line)
    # Bisect, because measuring a half runs in C and a line may be a megabyte long.
    while first < last:
        middle = (first + last + 1) // 2
        length = _encoded_length(line[first:middle], encoding)
        if length <= offset:
            first, offset = middle, offset - length
        else:
            last = middle - 1
    return first
