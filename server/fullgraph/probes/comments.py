"""Find the ``# fullgraph:`` comments of a text, and the definition that each of them describes."""

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
"""Maximum number of lines between a function or class and the ``# fullgraph:`` comment above it."""


@dataclass(frozen=True)
class ProbeComment:
    """The text after ``# fullgraph:``, which begins at character ``start`` of line ``line``.

    The text describes the inputs to trace a definition with, or is a directive such as ``off``.
    """

    line: int
    start: int
    text: str

    def range(self, positions: TextPositions) -> Range:
        """Return the source range of the comment's text after ``# fullgraph:``."""
        line = positions.line(self.line)
        start = len(line[: self.start].encode("utf-8", "surrogatepass"))
        width = len(self.text.encode("utf-8", "surrogatepass"))
        return Range(Position(self.line, start), Position(self.line, start + width))

    @property
    def directive(self) -> str:
        """Directive in the comment: ``off``, ``ignore``, or empty if it describes inputs."""
        match = _DIRECTIVE.match(self.text)
        return match[1] if match else ""


def comment_on(positions: TextPositions, line: int) -> ProbeComment | None:
    """Return the ``# fullgraph:`` comment on a line; None for a line without one."""
    if not 0 <= line < len(positions):
        return None
    text = positions.line(line)
    match = _MARK.search(text)
    if match is None or _in_string(text[: match.start()]):
        return None
    return ProbeComment(line, match.end(), text[match.end() :].rstrip())


def definition_of(positions: TextPositions, line: int) -> int:
    """Return the line of the ``def`` or ``class`` that a comment or decorator on ``line`` belongs
    to.

    Returns ``line`` itself if no ``def`` or ``class`` follows the comments and decorators.
    """
    depth = 0
    for at in range(line, min(line + MOST_LINES, len(positions))):
        text = positions.line(at)
        stripped = text.strip()
        if not depth and not stripped.startswith(("#", "@")):
            return at if at > line and _DEFINITION.match(text) else line
        if not stripped.startswith("#"):
            # A decorator may span several lines.
            depth -= _count_closing(text)
    return line


def comments_of(positions: TextPositions, line: int) -> tuple[ProbeComment, ...]:
    """Return the comments with example inputs for the definition on a line: directly above it, or
    at the end of its line.
    """
    found: list[ProbeComment] = []
    depth = 0
    for at in range(line, max(line - MOST_LINES, -1), -1):
        text = positions.line(at)
        stripped = text.lstrip()
        if at != line and not stripped.startswith("#"):
            # When reading upwards, a decorator over several lines begins with its closing bracket.
            depth += _count_closing(text)
            if not depth and not stripped.startswith("@"):
                break
        comment = comment_on(positions, at)
        if comment is not None and not comment.directive:
            found.append(comment)
    return tuple(reversed(found))


def _count_closing(text: str) -> int:
    """Return the number of closing brackets in a line minus the number of opening brackets."""
    return sum(map(text.count, ")]}")) - sum(map(text.count, "([{"))


def _in_string(before: str) -> bool:
    """Whether ``# fullgraph:`` is inside a string, given the text before it on the line."""
    return any(before.count(quote) % 2 for quote in "'\"")
