"""Update the lines and source ranges in the results of a file after an edit of the file.

If the edit removed the source range of a result, this module decides by the type of the result
whether to drop the result, or only its range. The maps in ``text_maps`` only report the removal.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import PurePath
from typing import Any, TypeVar

from fullgraph.incremental.moves import Kind, LineLost
from fullgraph.incremental.text_maps import TextMap
from fullgraph_engine.protocol import (
    BreakCause,
    Finding,
    Fix,
    ForecastRow,
    Frame,
    Position,
    ProbeInfo,
    Range,
    Related,
    SeenValue,
    TargetInfo,
    TargetReport,
    place_words,
)
from fullgraph_engine.protocol import TextEdit as FixEdit
from fullgraph_engine.protocol.coverage import Coverage
from fullgraph_engine.protocol.guards import GuardedFrame
from fullgraph_engine.protocol.shapes import PlaceShapes
from fullgraph_engine.protocol.trace_steps import TraceStep, TraceStepPlace

_T = TypeVar("_T")

_HIDDEN = frozenset(
    {Finding, TargetReport, TargetInfo, Related, Fix, FixEdit, SeenValue, PlaceShapes}
    | {TraceStepPlace}
)
"""Types of results to drop after an edit inside their source range, until the next trace."""
_WITHOUT_RANGE = frozenset({TraceStep, ForecastRow})
"""Types of results that lose their source range after an edit there.

All other types, for example stack frames, keep the old one.
"""

_KINDS: dict[Any, Kind] = {
    SeenValue: "expression",
    PlaceShapes: "expression",
    TraceStepPlace: "instruction",
    TraceStep: "place",
}
"""Kind of code that the ranges of a type of result cover; ``either`` for all others."""

_LINES = frozenset({"line", "end_line", "first_line", "last_line"})
"""Names of fields that contain a zero-based line.

The field ``path`` of the same object names the file of the line.
"""

_PLACE = re.compile(r"(?P<name>[\w.-]+\.py):(?P<number>\d+)(?= in )")
"""Pattern of torch's notation for the line that caused a guard: ``file.py:12 in ``."""

_WORDS = re.compile(
    r'(?P<file>File "[^"\n]+", |(?P<name>[\w.-]+\.py), )?'
    r"\b(?P<before>line )(?P<number>\d+)\b(?P<other> (?:of|in) [\w.-]+\.py)?"
)


class Relocation:
    """Updates the positions in results (lines and source ranges) after an edit of the file
    ``path``.

    With ``strict``, a source range that was removed raises ``LineLost``, because only complete
    results are useful. Otherwise only the result with that range is dropped.
    """

    def __init__(self, path: str, text_map: TextMap, *, strict: bool = False) -> None:
        self._path, self._map, self._strict = path, text_map, strict
        self._name = PurePath(path).name
        self._mention = f"{self._name}:"

    def relocate_value(self, results: _T) -> _T:
        """Return results with lines and ranges in the edited file.

        ``results`` are dataclasses or tuples of dataclasses.

        Raises:
            LineLost: A source range was removed, and the relocation is strict or it is the range of
                the result itself.
        """
        moved: _T = self._relocate_any(results, here=True)
        return moved

    def _relocate_any(self, value: Any, *, here: bool) -> Any:
        """Update the positions in a value of any type.

        ``here``: objects without a path of their own refer to the edited file.
        """
        kind: Any = type(value)
        if kind is str:
            return self._relocate_text(value, here=here)
        if kind is tuple:
            return self._relocate_items(value, here=here)
        if kind is Range:
            return self._map.move_range(value) if here else value
        if kind is BreakCause and not value.path:
            # A cause without a path has the same range as its finding, which is updated separately.
            return value
        special = _SPECIAL.get(kind)
        return special(self, value) if special is not None else self._relocate_fields(value, here)

    def _relocate_items(self, items: tuple[Any, ...], *, here: bool) -> tuple[Any, ...]:
        moved = []
        for item in items:
            try:
                moved.append(self._relocate_any(item, here=here))
            except LineLost:
                if self._strict:
                    raise
                if type(item) not in _HIDDEN:
                    moved.append(item)
        return tuple(moved)

    def _relocate_fields(self, value: Any, here: bool, *, except_for: str = "") -> Any:
        """Return a dataclass with updated positions in its fields; other values are returned
        unchanged.

        ``here``: the object refers to the edited file. The field ``except_for`` is left out.
        """
        kind: Any = type(value)
        path = getattr(value, "path", "")
        if path and isinstance(path, str):  # the `path` of a finding is an execution path
            here = path == self._path
        changed: dict[str, Any] = {}
        for name in _place_fields(kind):
            old = getattr(value, name)
            if name == except_for:
                continue
            try:
                new = self._relocate_field(kind, name, old, here=here)
            except LineLost:
                if self._strict or (name == "range" and kind in _HIDDEN):
                    raise
                new = None if name == "range" and kind in _WITHOUT_RANGE else old
            if new is not old and new != old:
                changed[name] = new
        return dataclasses.replace(value, **changed) if changed else value

    def _relocate_field(self, kind: Any, name: str, old: Any, *, here: bool) -> Any:
        if name in _LINES:
            return self._map.move_line(old) if here else old
        if isinstance(old, Range) and kind in _KINDS:
            return self._map.move_range(old, _KINDS[kind])
        return self._relocate_any(old, here=here)

    # -- types with special rules -------------------------------------------------------------

    def _relocate_finding(self, finding: Finding) -> Finding:
        place = self._map.move_range(finding.range, self._range_kind(finding))
        moved: Finding = self._relocate_fields(finding, here=True, except_for="range")
        # The identity contains the range. Update it, so that the next trace recognizes the finding.
        places = place_words(finding.range), place_words(place)
        identity = moved.identity.replace(*places)
        if place == finding.range and identity == moved.identity:
            return moved
        return dataclasses.replace(moved, range=place, identity=identity)

    def _range_kind(self, finding: Finding) -> Kind:
        """Return the kind of code that a finding's range covers: ``instruction`` if a stack frame
        has the range.
        """
        own = [_frame_range(frame) for frame in finding.stack if frame.path == self._path]
        if not own:
            return "either"
        # A finding about a condition has the range of the expression, and not of a bytecode
        # instruction.
        return "instruction" if finding.range in own else "expression"

    def _relocate_fix(self, fix: Fix) -> Fix:
        edits = tuple(self._relocate_any(edit, here=True) for edit in fix.edits)
        return dataclasses.replace(fix, edits=edits)

    def _relocate_probe(self, probe: ProbeInfo) -> ProbeInfo:
        """Update the source range of a probe (a description of example inputs).

        The text of the inputs does not change.
        """
        if not self._map.compares_code:
            return probe
        source = _WORDS.sub(self._replace_line_number, probe.source)
        return probe if source == probe.source else dataclasses.replace(probe, source=source)

    def _relocate_coverage(self, coverage: Coverage) -> Coverage:
        """Update the line ranges that a trace executed or missed, and count the lines again."""
        if not coverage.extends_to(self._map.first_line):
            return coverage
        return Coverage.from_ranges(
            *(
                [moved for one in ranges if (moved := self._find_range(one)) is not None]
                for ranges in coverage.unpack_ranges()
            )
        )

    def _find_range(self, range_: Range, kind: Kind = "instruction") -> Range | None:
        try:
            return self._map.move_range(range_, kind)
        except LineLost:
            if self._strict:
                raise
            return None

    def _relocate_frame(self, frame: Frame) -> Frame:
        if frame.path != self._path:
            return frame
        if frame.end_byte >= 0:
            place = self._map.move_range(_frame_range(frame), "instruction")
        else:
            start = Position(self._map.move_line(frame.line), frame.byte)
            last = frame.end_line if frame.end_line < 0 else self._map.move_line(frame.end_line)
            place = Range(start, Position(last, -1))
        text = self._map.line_text(place.start.line)
        return dataclasses.replace(
            frame,
            line=place.start.line,
            byte=place.start.byte,
            end_line=place.end.line,
            end_byte=place.end.byte,
            text=frame.text if text is None or not frame.text else text,
        )

    def _relocate_guarded_frame(self, frame: GuardedFrame) -> GuardedFrame:
        """Update the source ranges that caused the guards of a compiled frame after an edit.

        Guards refer to their cause by its index. If the edit removed the source range of a cause,
        None replaces it.
        """
        causes = tuple(cause and self._find_range(cause, "place") for cause in frame.causes)
        first, last = frame.first_line, frame.last
        if not frame.path:
            last = self._map.extend_range(last)
            try:
                first = self._map.move_line(first)
            except LineLost:
                if self._strict:
                    raise
        return dataclasses.replace(frame, causes=causes, first_line=first, last=last)

    def _relocate_shapes(self, shapes: PlaceShapes) -> PlaceShapes:
        """Update the positions of the shapes that a trace saw at an expression.

        Shapes on an edited line are hidden, because the value may have changed.
        """
        if self._map.has_edited_line(shapes.range):
            raise LineLost(shapes.range.start.line)
        moved: PlaceShapes = self._relocate_fields(shapes, here=True)
        return moved

    def _relocate_step(self, step: TraceStep) -> TraceStep:
        """Update the positions in a trace step, such as a graph or a graph break.

        Its ``path`` is the file of its function, but its ranges are always in the analyzed file.
        """
        moved: TraceStep = self._relocate_fields(dataclasses.replace(step, path=""), here=True)
        places = tuple(sorted(moved.places, key=lambda place: (place.range, place.ops)))
        return dataclasses.replace(moved, path=step.path, places=places)

    # -- texts --------------------------------------------------------------------------------

    def _relocate_text(self, value: str, *, here: bool) -> str:
        """Update the line numbers in a text, such as ``line 12``.

        Numbers of edited lines stay until the next trace.
        """
        has_places = self._mention in value
        if not self._map.compares_code or not (here or has_places):
            return value
        self._map.check_text(value)
        if has_places:
            value = _PLACE.sub(self._short_place, value)
        return _WORDS.sub(self._replace_line_number, value) if here and "line " in value else value

    def _short_place(self, match: re.Match[str]) -> str:
        name, number = match["name"], int(match["number"])
        return f"{name}:{self._map.move_line(number - 1) + 1}" if name == self._name else match[0]

    def _replace_line_number(self, match: re.Match[str]) -> str:
        file, name = match["file"] or "", match["name"] or ""
        if match["other"] or (name and name != self._name):
            return match[0]
        if file and not name and self._path not in file:
            return match[0]
        number = self._map.move_line(int(match["number"]) - 1) + 1
        return f"{file}{match['before']}{number}"


_SPECIAL: dict[Any, Any] = {
    Finding: Relocation._relocate_finding,
    Fix: Relocation._relocate_fix,
    Frame: Relocation._relocate_frame,
    ProbeInfo: Relocation._relocate_probe,
    Coverage: Relocation._relocate_coverage,
    GuardedFrame: Relocation._relocate_guarded_frame,
    PlaceShapes: Relocation._relocate_shapes,
    TraceStep: Relocation._relocate_step,
}


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
