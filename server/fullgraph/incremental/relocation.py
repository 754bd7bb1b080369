"""Move the lines and ranges in results of a text to a later text that executes in the same way."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from fullgraph.incremental.moves import Kind, LineLost, Moves
from fullgraph_engine.protocol import (
    BreakCause,
    Finding,
    Frame,
    Position,
    ProbeInfo,
    Range,
    place_words,
)
from fullgraph_engine.protocol.coverage import Coverage

_T = TypeVar("_T")

_LINES = frozenset({"line", "end_line", "first_line", "last_line"})
"""Names of result fields that contain a zero-based line; the object's field ``path`` names the
file.
"""
_PLACE = re.compile(r"(?P<name>[\w.-]+\.py):(?P<number>\d+)(?= in )")
"""Pattern of torch's notation for the line that caused a guard: ``file.py:12 in ``."""

_WORDS = re.compile(
    r'(?P<file>File "[^"\n]+", |(?P<name>[\w.-]+\.py), )?'
    r"\b(?P<before>line )(?P<number>\d+)\b(?P<other> (?:of|in) [\w.-]+\.py)?"
)


class Relocation:
    """A mapping of results of one file from an earlier text to a later one with these lines.

    Results that quote code with a changed text cannot be moved.
    """

    def __init__(self, path: str, moves: Moves, lines: Sequence[str]) -> None:
        self._path, self._moves, self._lines = path, moves, lines
        self._name = PurePath(path).name
        self._mention = f"{self._name}:"
        parts = moves.rewritten_parts
        formatted = [part for part in parts if part.is_formatted]
        self.is_formatted = bool(formatted)
        """True if the two texts differ in line breaks within a statement."""
        self._rewritten = {text for part in parts for text in part.rewritten_pieces()}
        self._joined = {text for part in formatted for text in part.joined_pieces()}
        self._lines_gone = {text for part in formatted for text in part.lines_gone()}

    def move_line(self, line: int) -> int:
        """Return the number of a line in the later text.

        Raises:
            LineLost: The line was removed or split.
        """
        return line if line < 0 else self._moves.move_line(line)

    def move_range(self, range_: Range, kind: Kind = "either") -> Range:
        """Return the range in the later text; ``kind`` says what the range covers.

        Raises:
            LineLost: The range lacks a counterpart.
        """
        return self._moves.move_range(range_, kind)

    def relocate_value(self, told: _T) -> _T:
        """Return a protocol dataclass, or a tuple of them, with its lines and ranges moved to the
        later text.

        Raises:
            LineLost: It refers to a line that the later text does not have.
        """
        moved: _T = self._relocate_any(told)
        return moved

    def _relocate_any(self, value: Any, *, here: bool = True) -> Any:
        """Move the lines and ranges in any value; ``here``: objects without a path refer to this
        file.
        """
        kind: Any = type(value)
        if kind is str:
            return self._relocate_text(value, here=here)
        if kind is tuple:
            return tuple(self._relocate_any(item, here=here) for item in value)
        if kind is Range:
            return self.move_range(value) if here else value
        if kind is Frame:
            return self._relocate_frame(value)
        if kind is BreakCause and not value.path:
            return value  # it is at the finding, which contains the range
        if kind is ProbeInfo:
            return self._relocate_probe(value)
        if kind is Coverage:
            return self._relocate_coverage(value)
        fields = _place_fields(kind)
        if not fields:
            return value
        path = getattr(value, "path", "")
        if path and isinstance(path, str):  # a finding has an execution path
            here = path == self._path
        changed: dict[str, Any] = {}
        for name in fields:
            old = getattr(value, name)
            new: Any
            if name in _LINES:
                new = self.move_line(old) if here else old
            elif name == "range" and kind is Finding:
                new = self.move_range(old, self._range_kind(value))
            else:
                new = self._relocate_any(old, here=here)
            if new is not old and new != old:
                changed[name] = new
        if not changed:
            return value
        moved = dataclasses.replace(value, **changed)
        if kind is Finding:
            places = place_words(value.range), place_words(moved.range)
            moved = dataclasses.replace(moved, identity=moved.identity.replace(*places))
        return moved

    def _relocate_text(self, value: str, *, here: bool) -> str:
        has_places = self._mention in value
        if not (here or has_places):
            return value
        if any(text in value for text in self._rewritten):
            raise LineLost
        if self._joined and any(text in "".join(value.split()) for text in self._joined):
            raise LineLost
        if self._lines_gone and not self._lines_gone.isdisjoint(_quoted_lines(value)):
            raise LineLost
        if has_places:
            value = _PLACE.sub(self._short_place, value)
        return _WORDS.sub(self._replace_line_number, value) if here and "line " in value else value

    def _range_kind(self, finding: Finding) -> Kind:
        """Return what a finding's range covers: an instruction if it is the range of a stack
        frame.
        """
        own = [_frame_range(frame) for frame in finding.stack if frame.path == self._path]
        if not own:
            return "either"
        # A condition has the range of its expression, not of the jump.
        return "instruction" if finding.range in own else "expression"

    def _relocate_probe(self, probe: ProbeInfo) -> ProbeInfo:
        """Move the source range of a probe (the inputs that a target is traced with); the text of
        the inputs does not change.
        """
        source = _WORDS.sub(self._replace_line_number, probe.source)
        return probe if source == probe.source else dataclasses.replace(probe, source=source)

    def _relocate_coverage(self, coverage: Coverage) -> Coverage:
        """Move the ranges of executed and other lines, and count the lines again."""
        moved = [
            [self.move_range(place, "instruction") for place in places]
            for places in coverage.unpack_ranges()
        ]
        return Coverage.from_ranges(*moved)

    def _relocate_frame(self, frame: Frame) -> Frame:
        if frame.path != self._path:
            return frame
        if frame.end_byte >= 0:
            place = self.move_range(_frame_range(frame), "instruction")
        else:
            start = Position(self.move_line(frame.line), frame.byte)
            place = Range(start, Position(self.move_line(frame.end_line), -1))
        line = place.start.line
        if line >= len(self._lines):
            raise LineLost(line)  # the frame is in another text with this path
        return dataclasses.replace(
            frame,
            line=line,
            byte=place.start.byte,
            end_line=place.end.line,
            end_byte=place.end.byte,
            text=self._lines[line] if frame.text else "",
        )

    def _short_place(self, match: re.Match[str]) -> str:
        name, number = match["name"], int(match["number"])
        return f"{name}:{self.move_line(number - 1) + 1}" if name == self._name else match[0]

    def _replace_line_number(self, match: re.Match[str]) -> str:
        file, name = match["file"] or "", match["name"] or ""
        if match["other"] or (name and name != self._name):
            return match[0]
        if file and not name and self._path not in file:
            return match[0]
        number = self.move_line(int(match["number"]) - 1) + 1
        return f"{file}{match['before']}{number}"


def _quoted_lines(value: str) -> Iterator[str]:
    """Yield text that may quote a line of the file: lines without indentation or torch's prefix,
    and text between backticks."""
    if "\n" in value:
        yield from (line.rpartition(", code: ")[2].strip() for line in value.split("\n"))
    yield from value.split("`")[1::2]


def _frame_range(frame: Frame) -> Range:
    return Range(Position(frame.line, frame.byte), Position(frame.end_line, frame.end_byte))


@functools.cache
def _place_fields(kind: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields that may contain lines or source ranges; empty for
    other types.
    """
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if field.type not in ("int", "float", "bool") or field.name in _LINES
    )
