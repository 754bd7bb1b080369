"""Measure and lay out text in terminal cells; a character takes zero, one or two of them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

TAB = 4
_JOINER = "\u200d"
_EMOJI_SELECTOR = "\ufe0f"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def width(text: str) -> int:
    """Return the number of cells of a line. A tab takes :data:`TAB` cells."""
    if text.isascii() and "\t" not in text:
        return len(text)
    return sum(size for _, size in _char_sizes(text))


def printable(text: str) -> str:
    """Make a line safe to print to a terminal: tabs become spaces, control characters become
    visible symbols."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_char(char) for char in text)


def printable_lines(text: str) -> list[str]:
    """Split a text into lines without control characters, and drop empty lines at both ends."""
    return [printable(line.rstrip()) for line in text.strip().splitlines()]


def wrap(text: str, limit: int) -> list[str]:
    """Break a line at spaces into parts of at most ``limit`` terminal cells; each part repeats the
    indentation of the line.

    A word longer than ``limit`` is kept whole, so that links and paths stay in one piece.
    """
    indent = text[: len(text) - len(text.lstrip())]
    lines: list[str] = []
    line = indent
    for word in text.split():
        joined = f"{line} {word}" if line.strip() else line + word
        if line.strip() and width(joined) > limit:
            lines.append(line)
            line = indent + word
        else:
            line = joined
    lines.append(line)
    return lines


@dataclass(frozen=True)
class Cropped:
    """The part of a line that fits into the available width, as made by ``crop``.

    ``skipped`` is the number of code points left out before the part. ``before`` and ``after`` are
    true if text was left out on that side.
    """

    text: str
    skipped: int
    before: bool
    after: bool


def crop(line: str, start: int, limit: int) -> Cropped:
    """Return the part of a line around code point ``start`` that fits into ``limit`` terminal
    cells."""
    if width(line) <= limit:
        return Cropped(line, 0, False, False)
    # Reserve at most a third of the width for text before ``start``.
    first, room = min(start, len(line)), limit // 3
    while first > 0 and width(line[first - 1 : start]) <= room:
        first -= 1
    last, used = first, 0
    while last < len(line) and used + width(line[last]) <= limit:
        used += width(line[last])
        last += 1
    return Cropped(line[first:last], first, first > 0, last < len(line))


def _visible_char(char: str) -> str:
    if char == "\t":
        return " " * TAB
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    category = unicodedata.category(char)
    # These are C1 controls, lone surrogates, and the bidirectional marks that can reorder a line of
    # code.
    if category in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(char) in _REORDERING:
        return "\ufffd"
    return char


_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _char_sizes(text: str) -> list[tuple[str, int]]:
    sized: list[tuple[str, int]] = []
    for char in text:
        previous, size = sized[-1] if sized else ("", 0)
        if char == _EMOJI_SELECTOR and size == 1:
            sized[-1] = (previous, 2)
            sized.append((char, 0))
        elif previous == _JOINER or (size == 2 and ord(char) in _SKIN_TONES):
            # A terminal draws joined emoji and skin tones as one character.
            sized.append((char, 0))
        else:
            sized.append((char, _char_width(char)))
    return sized


def _char_width(char: str) -> int:
    if char == "\t":
        return TAB
    if unicodedata.bidirectional(char) in _REORDERING:
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
