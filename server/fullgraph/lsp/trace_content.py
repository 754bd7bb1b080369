"""A target and what was traced of it, as plain data: graphs, breaks, sizes, guards."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from fullgraph.lsp.diagnostics import fix_edit
from fullgraph.lsp.places import range_in
from fullgraph.render.guards import sentences
from fullgraph.render.shapes import brief
from fullgraph.render.summary import probe_words
from fullgraph.session.findings import FileFinding
from fullgraph.session.repro import reproducible
from fullgraph.session.results import ShownReport
from fullgraph.session.unit import Unit
from fullgraph_engine.protocol import Range, TargetReport
from fullgraph_engine.protocol.course import CourseStep
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame
from fullgraph_engine.protocol.shapes import PlaceShapes
from fullgraph_engine.protocol.sources import in_user_words

MOST_GUARDS = 200
"""Guards of one kind that are told one by one."""

_OUTCOMES = {
    "resumed": "Python does this, and the next graph goes on behind it.",
    "rest-skipped": "The rest of the function is left to Python.",
    "frame-skipped": "The whole function is left to Python.",
    "raised": "An error, because of `fullgraph=True`.",
}
_CALL_OUTCOME = "The call is left to Python. What it calls is compiled by itself, and breaks there."

_GUARD_KINDS = {
    "TENSOR_MATCH": "Dtype, sizes, strides and device of tensors",
    "TYPE_MATCH": "Types of objects",
    "ID_MATCH": "Which object it is",
    "EQUALS_MATCH": "Values of constants",
    "CONSTANT_MATCH": "Values of constants",
    "BOOL_MATCH": "Truth values",
    "TRUE_MATCH": "Truth values",
    "FALSE_MATCH": "Truth values",
    "NONE_MATCH": "None or not",
    "LENGTH_CHECK": "Lengths",
    "DICT_LENGTH": "Lengths",
    "SHAPE_ENV": "Symbolic sizes",
    "LAMBDA_GUARD": "Other conditions",
    "DICT_VERSION": "Versions of dictionaries",
    "NO_HASATTR": "Attributes that are missing",
    "NOT_PRESENT_IN_GENERIC_DICT": "Attributes that are missing",
    "DICT_CONTAINS": "Keys of dictionaries",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "Dimensions that are marked as dynamic",
}


def trace_content(unit: Unit, name: str | None, line: int | None) -> dict[str, Any] | None:
    """None where no target is known. The target that is named, or at or above a line."""
    reports = unit.reports()
    shown = _chosen(unit, reports, name, line)
    return _Content(unit, shown, reports).plain() if shown is not None else None


def _chosen(
    unit: Unit, reports: Sequence[ShownReport], name: str | None, line: int | None
) -> ShownReport | None:
    chosen = None
    for shown in reports:
        if name is not None and shown.report.name == name:
            return shown
        first = range_in(unit.document, shown.report.range).start.line
        traced = shown.report.status != "no-probe"
        if line is not None and first <= line and traced:
            # Of several probes the first is the one.
            same = chosen is not None and chosen.report.name == shown.report.name
            chosen = chosen if same else shown
    return chosen or next(
        (shown for shown in reports if shown.report.status != "no-probe"),
        reports[0] if reports else None,
    )


class _Content:
    def __init__(self, unit: Unit, shown: ShownReport, reports: Sequence[ShownReport]) -> None:
        self._unit, self._shown, self._reports = unit, shown, reports
        self._lines = re.split(r"\r\n|\r|\n", unit.document.text)
        name = shown.report.name
        self._findings = [item for item in unit.findings() if name in item.targets]
        course = unit.results.courses.get(name)
        self._steps = course.runs[0] if course is not None else ()
        self._broken: set[object] = set()
        """What is told as a break of the course."""

    def plain(self) -> dict[str, Any]:
        report = self._shown.report
        document = self._unit.document
        steps = list(self._course())
        return {
            "uri": document.uri,
            "file": document.name.rsplit("/", 1)[-1],
            "target": report.name,
            "targets": list(dict.fromkeys(shown.report.name for shown in self._reports)),
            "range": self._range(report.range),
            "current": self._shown.current,
            "busy": self._unit.busy or self._unit.waiting,
            **_facts(report),
            "steps": steps,
            "guardGroups": list(self._guards()),
            "remarks": list(self._remarks()),
        }

    # -- the course ---------------------------------------------------------------------------

    def _course(self) -> Iterator[dict[str, Any]]:
        shapes = self._shapes_by_line()
        number = 0
        for step in self._steps:
            if step.kind == "break":
                # Of one that was edited nothing is known any more.
                if step.range is not None:
                    yield self._break(step, step.range)
                continue
            number += 1
            lines = [
                {
                    "line": line.line,
                    "ops": line.ops,
                    "text": self._text(line.line),
                    "shapes": shapes.get(line.line, []),
                }
                for line in step.lines
                if line.line < len(self._lines)
            ]
            # After an edit, operators of the lines that it touched are nowhere.
            elsewhere = step.ops - sum(line.ops for line in step.lines)
            yield {
                "kind": "graph",
                "number": number,
                "function": step.function,
                "ops": step.ops,
                "elsewhere": elsewhere if self._shown.current else 0,
                "seconds": step.seconds,
                "lines": lines,
            }

    def _break(self, step: CourseStep, range_: Range) -> dict[str, Any]:
        item = self._finding_of(step)
        finding = item.finding if item is not None else None
        message = finding.message if finding is not None else step.code
        title = str(finding.data.get("type", "")) if finding is not None else ""
        through = step.inlined > 1
        return {
            "kind": "break",
            "function": step.function,
            "code": step.code,
            "title": title or message,
            "outcome": _CALL_OUTCOME if through else _OUTCOMES.get(step.outcome, ""),
            "through": through,
            "explanation": finding.explanation if finding is not None else "",
            "hints": list(finding.hints) if finding is not None else [],
            "href": item.href if item is not None else "",
            "range": self._range(range_),
            "text": self._text(range_.start.line),
            "fixes": self._fixes(item),
            "reproducible": item is not None and reproducible(step.code),
        }

    def _finding_of(self, step: CourseStep) -> FileFinding | None:
        for item in self._findings:
            if (item.finding.code, item.finding.range) == (step.code, step.range):
                self._broken.add(id(item))
                return item
        return None

    def _fixes(self, item: FileFinding | None) -> list[dict[str, Any]]:
        document = self._unit.document
        return [
            {
                "title": fix.title,
                "edits": [
                    {"range": _plain(edit.range), "newText": edit.new_text}
                    for edit in fix_edit(fix, document)
                ],
            }
            for fix in (item.finding.fixes if item is not None else ())
        ]

    def _shapes_by_line(self) -> dict[int, list[str]]:
        """What names were on each line, as hints say it."""
        found = self._unit.results.shapes.get(self._shown.report.name)
        by_line: dict[int, list[str]] = defaultdict(list)
        for place in found.places.values() if found is not None else ():
            if place.role != "expression" and _has_tensor(place):
                words = brief(place)
                told = f"returns {words}" if place.role == "return" else f"{place.name}: {words}"
                by_line[place.range.start.line].append(told)
        return by_line

    # -- beside it ----------------------------------------------------------------------------

    def _guards(self) -> Iterator[dict[str, Any]]:
        """By kind, those of which there are most first."""
        found = self._unit.results.guards.get(self._shown.report.name)
        groups: dict[str, list[tuple[GuardedFrame, FoundGuard]]] = defaultdict(list)
        for frame in found.frames if found is not None else ():
            for guard in frame.guards:
                groups[_GUARD_KINDS.get(guard.kind, _words(guard.kind))].append((frame, guard))
        for name, guards in sorted(groups.items(), key=lambda group: -len(group[1])):
            told = [self._guard(frame, guard) for frame, guard in guards[:MOST_GUARDS]]
            yield {"name": name, "count": len(guards), "guards": told}

    def _guard(self, frame: GuardedFrame, guard: FoundGuard) -> dict[str, Any]:
        cause = frame.causes[guard.cause] if guard.cause >= 0 else None
        return {
            "subject": in_user_words(guard.source) if guard.source else "",
            "conditions": list(sentences(guard)),
            "line": cause.start.line if cause is not None else None,
        }

    def _remarks(self) -> Iterator[dict[str, Any]]:
        """Findings that are no break of the course."""
        for item in self._findings:
            if id(item) in self._broken:
                continue
            yield {
                "code": item.finding.code,
                "severity": item.severity.value,
                "message": item.finding.message,
                "range": self._range(item.finding.range),
                "href": item.href,
                "fixes": self._fixes(item),
            }

    def _range(self, range_: Range) -> dict[str, Any]:
        return _plain(range_in(self._unit.document, range_))

    def _text(self, line: int) -> str:
        return self._lines[line].strip() if line < len(self._lines) else ""


def _facts(report: TargetReport) -> dict[str, Any]:
    return {
        "status": report.status,
        "error": (report.error or "").strip().split("\n", 1)[0],
        "mode": report.mode,
        "probe": probe_words(report.probe) if report.probe is not None else "",
        "graphs": report.graphs,
        "ops": report.ops,
        "breaks": report.breaks,
        "guards": report.guards,
        "recompiles": report.recompiles,
        "seconds": report.seconds,
    }


def _has_tensor(place: PlaceShapes) -> bool:
    return any(value.kind in ("tensor", "several") for value in place.values)


def _words(kind: str) -> str:
    """``DICT_CONTAINS`` as people would write it."""
    return kind.replace("_", " ").capitalize()


def _plain(range_: types.Range) -> dict[str, Any]:
    return {
        "start": {"line": range_.start.line, "character": range_.start.character},
        "end": {"line": range_.end.line, "character": range_.end.character},
    }
