"""Break long signatures and schemas at commas."""

from __future__ import annotations

from collections.abc import Iterator

_INDENT = "    "


def number_lines(lines: tuple[str, ...], width: int) -> Iterator[str]:
    """Yield lines with numbers in front; the continuation of a long line is indented below its
    text."""
    digits = len(str(len(lines)))
    for number, line in enumerate(lines, 1):
        first, *more = fold_line(line, width - digits - 2)
        yield f"{number:>{digits}}  {first}"
        yield from (" " * (digits + 2) + rest for rest in more)


def fold_line(line: str, width: int) -> list[str]:
    """Break a line before its ``->`` and after commas into parts of at most ``width``
    characters."""
    head, arrow, result = line.rpartition(" -> ")
    if not arrow:
        return _fold_at_commas(line, width)
    parts = _fold_at_commas(head, width)
    if len(parts[-1]) + len(arrow + result) <= width:
        return [*parts[:-1], parts[-1] + arrow + result]
    return [*parts, *_fold_at_commas(f"{_INDENT}-> {result}", width)]


def _fold_at_commas(line: str, width: int) -> list[str]:
    parts: list[str] = []
    current = ""
    for piece in _split_pieces(line):
        if current.strip() and len(current) + len(piece.rstrip()) > width:
            parts.append(current.rstrip())
            current = _INDENT + piece.lstrip()
        else:
            current += piece
    return [*parts, current.rstrip()]


def _split_pieces(line: str) -> Iterator[str]:
    """Split a signature after each argument; a lone ``*`` stays together with the argument after
    it."""
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
