"""What was told of a text, said of a later one whose lines of code are the same but for blanks."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from fullgraph.session.edit_tracking import Edit
from fullgraph_engine.protocol import BreakCause, Finding, Frame, Position, Range, place_words

_T = TypeVar("_T")

_LINES = frozenset({"line", "end_line", "first_line", "last_line"})
"""Fields that hold a zero-based line of the file that their object's ``path`` names."""
_LISTS = frozenset({"untraced"})
_WORDS = re.compile(
    r'(?P<file>File "[^"\n]+", |(?P<name>[\w.-]+\.py), )?'
    r"\b(?P<before>line )(?P<number>\d+)\b(?P<other> (?:of|in) [\w.-]+\.py)?"
)


class LineLost(Exception):
    """Something is told of a line that has no counterpart, or repeats one that is written otherwise
    by now."""


class Relocation:
    """Places of one file, from an earlier text to a later one with these lines, line by line."""

    def __init__(self, path: str, edits: Sequence[Edit], lines: Sequence[str]) -> None:
        self._path, self._edits, self._lines = path, tuple(edits), lines
        self._name = PurePath(path).name
        self._known: dict[int, int] = {}
        self._inside: dict[int, list[Edit]] = {}
        for edit in self._edits:
            if edit.inside:
                self._inside.setdefault(edit.start.line, []).append(edit)
        self._around = {edit.around for edit in self._edits if edit.around}

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

    def byte(self, line: int, byte: int, *, end: bool = False) -> int:
        """Where a place on a line is now; ``end``: it is the end of something.

        Raises:
            LineLost: it is between blanks that came or went.
        """
        moved = byte
        for edit in self._inside.get(line, ()):
            if edit.start.byte < byte < edit.end.byte:
                raise LineLost(line)
            if edit.start.byte < byte if end else edit.end.byte <= byte:
                moved += edit.new_end.byte - edit.end.byte
        return moved

    def of(self, told: _T) -> _T:
        """The same of the later text: a dataclass of the protocol, or a tuple of some.

        Raises:
            LineLost: it is about a line that has no counterpart.
        """
        moved: _T = self._moved(told)
        return moved

    def _moved(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind is str:
            if any(around in value for around in self._around):
                raise LineLost
            return _WORDS.sub(self._word, value) if "line " in value else value
        if kind is tuple:
            return tuple(self._moved(item) for item in value)
        if kind is Range:
            start, end = value.start, value.end
            return Range(
                Position(self.line(start.line), self.byte(start.line, start.byte)),
                Position(self.line(end.line), self.byte(end.line, end.byte, end=True)),
            )
        if kind is Frame:
            return self._frame(value)
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

    def _frame(self, frame: Frame) -> Frame:
        if frame.path != self._path:
            return frame
        line = self.line(frame.line)
        if line >= len(self._lines):
            raise LineLost(line)  # code of another text with the same path
        return dataclasses.replace(
            frame,
            line=line,
            byte=self.byte(frame.line, frame.byte),
            end_line=self.line(frame.end_line),
            end_byte=self.byte(frame.end_line, frame.end_byte, end=True),
            text=self._lines[line] if frame.text else "",
        )

    def _word(self, match: re.Match[str]) -> str:
        file, name = match["file"] or "", match["name"] or ""
        if match["other"] or (name and name != self._name):
            return match[0]
        if file and not name and self._path not in file:
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
