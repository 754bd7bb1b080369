"""Long signatures and schemas, broken where a reader would break them."""

from __future__ import annotations

from collections.abc import Iterator

_INDENT = "    "


def numbered(lines: tuple[str, ...], width: int) -> Iterator[str]:
    """Lines with their numbers in front; what is folded is indented below its own text."""
    digits = len(str(len(lines)))
    for number, line in enumerate(lines, 1):
        first, *more = fold(line, width - digits - 2)
        yield f"{number:>{digits}}  {first}"
        yield from (" " * (digits + 2) + rest for rest in more)


def fold(line: str, width: int) -> list[str]:
    """Break a line before its arrow and behind commas, so that each part fits if it can."""
    head, arrow, result = line.rpartition(" -> ")
    if not arrow:
        return _folded(line, width)
    parts = _folded(head, width)
    if len(parts[-1]) + len(arrow + result) <= width:
        return [*parts[:-1], parts[-1] + arrow + result]
    return [*parts, *_folded(f"{_INDENT}-> {result}", width)]


def _folded(line: str, width: int) -> list[str]:
    parts: list[str] = []
    now = ""
    for piece in _pieces(line):
        if now.strip() and len(now) + len(piece.rstrip()) > width:
            parts.append(now.rstrip())
            now = _INDENT + piece.lstrip()
        else:
            now += piece
    return [*parts, now.rstrip()]


def _pieces(line: str) -> Iterator[str]:
    """What stays together: an argument with its brackets, and ``*`` with what follows it."""
    depth, start, quote = 0, 0, ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 1 and line[start:place].strip() != "*":
            yield line[start : place + 1]
            start = place + 1
    yield line[start:]
