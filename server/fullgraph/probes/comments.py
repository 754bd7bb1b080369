"""Where probe comments are, and which definition each belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import Position, Range

_MARK = re.compile(r"#[ \t]*fullgraph:[ \t]*")
_DIRECTIVE = re.compile(r"(off|ignore)\b(?!\()")
_DEFINITION = re.compile(r"\s*(class|def|async[ \t]+def)\b|\w+[ \t]*[:=]")
_HEAD = re.compile(r"(?P<indent>\s*)(class|def|async[ \t]+def)\b")

MOST_LINES = 60
"""Lines that a definition may be away from its comment."""


@dataclass(frozen=True)
class ProbeComment:
    """The text behind ``# fullgraph:``, which begins at ``start`` in its line."""

    line: int
    start: int
    text: str

    def range(self, positions: TextPositions) -> Range:
        """Where the text is."""
        line = positions.line(self.line)
        start = len(line[: self.start].encode("utf-8", "surrogatepass"))
        width = len(self.text.encode("utf-8", "surrogatepass"))
        return Range(Position(self.line, start), Position(self.line, start + width))

    @property
    def directive(self) -> str:
        """``off`` or ``ignore``; empty of a probe."""
        match = _DIRECTIVE.match(self.text)
        return match[1] if match else ""


def comment_on(positions: TextPositions, line: int) -> ProbeComment | None:
    """The comment of fullgraph on a line."""
    if not 0 <= line < len(positions):
        return None
    text = positions.line(line)
    match = _MARK.search(text)
    if match is None or _in_string(text[: match.start()]):
        return None
    return ProbeComment(line, match.end(), text[match.end() :].rstrip())


def definition_of(positions: TextPositions, line: int) -> int:
    """The line of the definition that a comment or a decorator is written above; else ``line``."""
    depth = 0
    for at in range(line, min(line + MOST_LINES, len(positions))):
        text = positions.line(at)
        stripped = text.strip()
        if not depth and not stripped.startswith(("#", "@")):
            return at if at > line and _DEFINITION.match(text) else line
        if not stripped.startswith("#"):
            # A decorator may go on for some lines.
            depth -= _count_closing(text)
    return line


def comments_of(positions: TextPositions, line: int) -> tuple[ProbeComment, ...]:
    """The probes in the block above the definition on a line, and behind it."""
    found: list[ProbeComment] = []
    depth = 0
    for at in range(line, max(line - MOST_LINES, -1), -1):
        text = positions.line(at)
        stripped = text.lstrip()
        if at != line and not stripped.startswith("#"):
            # From below, a decorator that goes on for some lines begins with what closes it.
            depth += _count_closing(text)
            if not depth and not stripped.startswith("@"):
                break
        comment = comment_on(positions, at)
        if comment is not None and not comment.directive:
            found.append(comment)
    return tuple(reversed(found))


def _count_closing(text: str) -> int:
    """How many brackets a line closes that it does not open."""
    return sum(map(text.count, ")]}")) - sum(map(text.count, "([{"))


def _in_string(before: str) -> bool:
    """Whether what stands before a mark opens a string that it would be in."""
    return any(before.count(quote) % 2 for quote in "'\"")
