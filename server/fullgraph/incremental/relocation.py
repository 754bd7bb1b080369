"""What was told of a text, said of a later one whose lines of code are the same."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from fullgraph.session.edit_tracking import Edit
from fullgraph_engine.protocol import BreakCause, Finding, Position, place_words

_T = TypeVar("_T")

_LINES = frozenset({"line", "end_line", "first_line", "last_line"})
"""Fields that hold a zero-based line of the file that their object's ``path`` names."""
_LISTS = frozenset({"untraced"})
_WORDS = re.compile(
    r'(?P<file>File "[^"\n]+", |(?P<name>[\w.-]+\.py), )?'
    r"\b(?P<before>line )(?P<number>\d+)\b(?P<other> (?:of|in) [\w.-]+\.py)?"
)


class LineLost(Exception):
    """Something is told of a line that has no counterpart."""


class Relocation:
    """Places of one file, from an earlier text to a later one, line by line."""

    def __init__(self, path: str, edits: Sequence[Edit]) -> None:
        self._path, self._edits = path, tuple(edits)
        self._known: dict[int, int] = {}

    def line(self, line: int) -> int:
        """Where a line is now.

        Raises:
            LineLost: it is no line of the later text.
        """
        if line < 0:
            return line
        moved = self._known.get(line)
        if moved is None:
            moved = line
            for edit in self._edits:
                shifted = edit.moved_line(moved)
                if shifted is None:
                    raise LineLost(line)
                moved = shifted
            self._known[line] = moved
        return moved

    def of(self, told: _T) -> _T:
        """The same of the later text: a dataclass of the protocol, or a tuple of some.

        Raises:
            LineLost: it is about a line that has no counterpart.
        """
        if not self._edits:
            return told
        moved: _T = self._moved(told)
        return moved

    def _moved(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind is str:
            return _WORDS.sub(self._word, value) if "line " in value else value
        if kind is tuple:
            return tuple(self._moved(item) for item in value)
        if kind is Position:
            return Position(self.line(value.line), value.byte)
        if kind is BreakCause and not value.path:
            return value  # where the finding is, which says so itself
        fields = _fields(kind)
        if not fields or getattr(value, "path", "") not in ("", self._path, None):
            return value
        changed: dict[str, Any] = {}
        for name in fields:
            old = getattr(value, name)
            new: Any
            if name in _LINES:
                new = self.line(old)
            elif name in _LISTS:
                new = tuple(self.line(line) for line in old)
            else:
                new = self._moved(old)
            if new is not old and new != old:
                changed[name] = new
        if not changed:
            return value
        moved = dataclasses.replace(value, **changed)
        if kind is Finding:
            places = place_words(value.range), place_words(moved.range)
            moved = dataclasses.replace(moved, identity=moved.identity.replace(*places))
        return moved

    def _word(self, match: re.Match[str]) -> str:
        file, name = match["file"] or "", match["name"] or ""
        if match["other"] or name or (file and self._path not in file):
            return match[0]
        number = self.line(int(match["number"]) - 1) + 1
        return f"{file}{match['before']}{number}"


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Of a dataclass, those that may say something of a place; none of anything else."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if field.type not in ("int", "float", "bool") or field.name in _LINES
    )
