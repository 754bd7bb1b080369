"""Convert the trace of a function to JSON data for clients: graphs, breaks, sizes and guards."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guards import guard_sentences
from fullgraph.domain.reports import ShownReport, reports_by_target
from fullgraph.domain.shapes import brief_values
from fullgraph.domain.wording import explanation, message_lines
from fullgraph.lsp.fix_actions import describe_result
from fullgraph.lsp.places import range_in, range_json, text_edits
from fullgraph.probes import comment_on, definition_of
from fullgraph.render.breaks import cost_clause
from fullgraph.render.summary import probe_inputs, probe_words
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.ignores import remove_ignored
from fullgraph.session.probe_runs import run_of_comment
from fullgraph.session.repro import is_reproducible
from fullgraph_engine.protocol import Finding, Frame, Position, Range, TargetReport, TextEdit
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame
from fullgraph_engine.protocol.shapes import PlaceShapes
from fullgraph_engine.protocol.sources import in_user_words
from fullgraph_engine.protocol.trace_steps import TraceStep

if TYPE_CHECKING:
    from fullgraph.fixes.verification import Fix

MOST_GUARDS = 200
"""Maximum number of guards of one kind in the data."""

_OUTCOMES = {
    "resumed": "This line runs in Python; a new graph starts after it.",
    "rest-skipped": "The rest of the function runs in Python.",
    "frame-skipped": "The whole function runs in Python.",
    "raised": "This line raises an error, because of `fullgraph=True`.",
}
_CALLED = "The called function is compiled separately, and the break is inside it."
_CALL_OUTCOMES = {
    "frame-skipped": f"{_OUTCOMES['frame-skipped']} {_CALLED}",
    "rest-skipped": f"{_OUTCOMES['rest-skipped']} {_CALLED}",
}
_CALL_OUTCOME = f"The call runs in Python. {_CALLED}"

_GUARD_KINDS = {
    "TENSOR_MATCH": "Dtype, sizes, strides and device of tensors",
    "TYPE_MATCH": "Types of objects",
    "ID_MATCH": "Identity of objects",
    "EQUALS_MATCH": "Values of constants",
    "CONSTANT_MATCH": "Values of constants",
    "BOOL_MATCH": "Truth values",
    "TRUE_MATCH": "Truth values",
    "FALSE_MATCH": "Truth values",
    "NONE_MATCH": "Whether values are None",
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


_NOWHERE = Range(Position(0, 0), Position(0, 0))


@dataclass(frozen=True)
class _TraceTarget:
    """A traced function, with a report for each set of inputs that it was traced with.

    ``runs`` is empty during the first trace. ``name`` is empty until the engine has listed the
    functions of the file.
    """

    name: str
    range: Range
    runs: tuple[ShownReport, ...]

    @property
    def traced(self) -> bool:
        return not self.runs or self.runs[0].report.status != "no-probe"


def trace_content(
    unit: AnalysisUnit,
    name: str | None,
    line: int | None,
    run: int | None = None,
    probe: int | None = None,
    *,
    find_fixes: Callable[[FileFinding], Iterable[Fix]] = lambda _: (),
) -> dict[str, Any] | None:
    """Return the trace of a function as JSON data: by name, else of the function at or above a
    line; None if there is none.

    A function has one run for each set of inputs. ``run`` is the index of the run, ``probe`` the
    number of its inputs. Without both, a line with a probe comment selects the run with the inputs
    in the comment. ``find_fixes`` returns the verified fixes of a finding.
    """
    subjects = _list_targets(unit)
    written = None
    if line is not None:
        written = comment_on(unit.document.positions, line)
        line = definition_of(unit.document.positions, line)
    chosen = _choose_target(unit, subjects, name, line)
    if chosen is None:
        return None
    names = [subject.name for subject in subjects if subject.name]
    if not chosen.runs:
        return _pending_content(unit, chosen, names)
    if written is not None and probe is None:
        traced = run_of_comment(unit.document.positions, chosen.runs, written)
        probe = traced.report.probe_number if traced is not None else None
    at_probe = run is None and probe is not None
    if run is None:
        numbers = [shown.report.probe_number for shown in chosen.runs]
        run = numbers.index(probe) if probe in numbers else 0
    number = min(max(run, 0), len(chosen.runs) - 1)
    content = _RunContent(unit, chosen, names, number, find_fixes)
    return {**content.to_data(), "atProbe": at_probe}


def _list_targets(unit: AnalysisUnit) -> list[_TraceTarget]:
    """Return all traced functions of a file in the order of the text."""
    subjects = [
        _TraceTarget(name, target_runs[0].report.range, tuple(target_runs))
        for name, target_runs in reports_by_target(unit.view.reports()).items()
    ]
    if _is_busy(unit):
        subjects += [
            _TraceTarget(target.name, target.range, ()) for target in unit.results.unreported
        ]
        subjects.sort(key=lambda subject: subject.range.start.line)
    if not subjects and _is_busy(unit) and unit.traces.complete is None:
        return [_TraceTarget("", _NOWHERE, ())]
    return subjects


def _is_busy(unit: AnalysisUnit) -> bool:
    return unit.busy or unit.waiting


def _choose_target(
    unit: AnalysisUnit, subjects: Sequence[_TraceTarget], name: str | None, line: int | None
) -> _TraceTarget | None:
    for subject in subjects:
        if name is not None and subject.name == name:
            return subject
    traced = [subject for subject in subjects if subject.traced]
    if line is None or not subjects:
        return next(iter(traced or subjects), None)
    starts = [range_in(unit.document, subject.range).start.line for subject in subjects]
    number = bisect.bisect_right(starts, line) - 1
    if number < 0:
        return next(iter(traced or subjects), None)
    nearest = subjects[number]
    if nearest.traced:
        return nearest
    # A function that others call, such as a layer of a model, was traced as a part of them.
    end = starts[number + 1] if number + 1 < len(starts) else len(unit.document.positions)
    containing = (subject for subject in traced if _has_ops_in(unit, subject, starts[number], end))
    return next(containing, nearest)


def _has_ops_in(unit: AnalysisUnit, subject: _TraceTarget, first: int, end: int) -> bool:
    """Whether some operator in the trace of a function comes from the lines ``first`` to ``end`` of
    the file."""
    found = unit.results.target_details(subject.name).trace_steps
    steps = (step for run in found.current.runs for step in run.steps) if found else ()
    return any(first <= line < end for step in steps for line in step.ops_by_line)


def _target_header(
    unit: AnalysisUnit, subject: _TraceTarget, names: Sequence[str]
) -> dict[str, Any]:
    return {
        "uri": unit.document.uri,
        "file": unit.document.name.rsplit("/", 1)[-1],
        "target": subject.name,
        "targets": list(names),
        "range": range_json(range_in(unit.document, subject.range)),
        "busy": _is_busy(unit),
    }


def _pending_content(
    unit: AnalysisUnit, subject: _TraceTarget, names: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON data for a function whose first trace has not ended."""
    nothing = dict.fromkeys(("graphs", "ops", "breaks", "guards", "recompiles", "seconds"), 0)
    empty: dict[str, Any] = {"runs": [], "steps": [], "guardGroups": [], "remarks": []}
    return {
        **_target_header(unit, subject, names),
        "current": True,
        "run": 0,
        "atProbe": False,
        "number": 0,
        "status": "tracing",
        "error": "",
        "mode": "",
        "probe": "",
        "inputs": "",
        **nothing,
        **empty,
    }


class _RunContent:
    def __init__(
        self,
        unit: AnalysisUnit,
        subject: _TraceTarget,
        names: Sequence[str],
        run: int,
        find_fixes: Callable[[FileFinding], Iterable[Fix]],
    ) -> None:
        self._find_fixes = find_fixes
        self._unit, self._subject, self._names, self._run = unit, subject, names, run
        self._shown = subject.runs[run]
        self._probe = self._shown.report.probe_number
        self._findings = [
            item
            for item in unit.view.all_findings()
            if item.finding_of_run(subject.name, self._probe)
        ]
        found = unit.results.target_details(subject.name).trace_steps
        self._steps = found.current.by_probe.get(self._probe, ()) if found is not None else ()

    def to_data(self) -> dict[str, Any]:
        return {
            **_target_header(self._unit, self._subject, self._names),
            "current": self._shown.current,
            "run": self._run,
            "runs": [_report_facts(shown.report) for shown in self._subject.runs],
            **_report_facts(self._shown.report),
            "steps": list(self._step_data()),
            "guardGroups": list(self._guard_groups()),
            "remarks": list(self._other_findings()),
        }

    # -- the steps ---------------------------------------------------------------------------

    def _step_data(self) -> Iterator[dict[str, Any]]:
        shapes = self._shapes_by_line()
        number = 0
        last_graph = max(
            (index for index, step in enumerate(self._steps) if step.kind == "graph"), default=-1
        )
        for index, step in enumerate(self._steps):
            if step.kind == "break":
                # The range of a graph break is unknown after its line was edited.
                if step.range is not None:
                    yield self._break_data(step, step.range, index < last_graph)
                continue
            number += 1
            lines = [
                {
                    "line": line,
                    "ops": ops,
                    "text": self._line_text(line),
                    "shapes": shapes.get(line, []),
                }
                for line, ops in step.ops_by_line.items()
                if line < len(self._unit.document.positions)
            ]
            # After an edit, the source range of operators in edited lines is unknown.
            elsewhere = step.ops - sum(place.ops for place in step.places)
            yield {
                "kind": "graph",
                "number": number,
                "function": step.function,
                "ops": step.ops,
                "elsewhere": elsewhere if self._shown.current else 0,
                "seconds": step.seconds,
                "lines": lines,
            }

    def _break_data(self, step: TraceStep, range_: Range, before_graph: bool) -> dict[str, Any]:
        item = self._find_finding(step)
        finding = item.finding if item is not None else None
        cost = finding.cost if finding is not None else None
        through = step.inlined > 1
        place = self._range_data(range_)
        run_finding = (
            item.finding_of_run(self._subject.name, self._probe) if item is not None else None
        )
        if through and run_finding is not None:
            place = self._call_range(run_finding.stack, step.inlined) or place
        outcomes = _CALL_OUTCOMES if through else _OUTCOMES
        outcome = outcomes.get(step.outcome, _CALL_OUTCOME if through else "")
        if step.outcome == "resumed" and not through and not before_graph:
            outcome = "This line runs in Python."
        return {
            "kind": "break",
            "id": item.id if item is not None else "",
            "function": step.function,
            "code": step.code,
            "title": _break_title(finding) if finding is not None else step.code,
            "cost": cost_clause(cost) if cost is not None else "",
            "outcome": outcome,
            "through": through,
            "explanation": _dynamo_text(finding) if finding is not None else "",
            "hints": list(finding.hints) if finding is not None else [],
            "href": item.href if item is not None else "",
            "range": place,
            "text": self._line_text(place["start"]["line"]),
            "fixes": self._fix_data(item),
            "reproducible": item is not None and is_reproducible(step.code),
        }

    def _call_range(self, stack: Sequence[Frame], inlined: int) -> dict[str, Any] | None:
        """Return the range of the call, in the compiled function, that leads to the code with the
        graph break.

        ``stack`` is the stack at the break, and ``inlined`` the number of its inlined frames. None
        if the call is not in the file.
        """
        frame = stack[-inlined] if 0 < inlined <= len(stack) else None
        if frame is None or frame.path != self._unit.document.name or not self._shown.current:
            return None
        start = Position(frame.line, frame.byte)
        known = frame.end_byte >= 0 and frame.end_line >= 0
        return self._range_data(
            Range(start, Position(frame.end_line, frame.end_byte) if known else start)
        )

    def _find_finding(self, step: TraceStep) -> FileFinding | None:
        # Search all findings: an ignore comment hides a finding in the editor, but not in this
        # data.
        for item in self._findings:
            if (item.finding.code, item.finding.range) == (step.code, step.range):
                return item
        return None

    def _fix_data(self, item: FileFinding | None) -> list[dict[str, Any]]:
        """Return the fixes of a finding, verified ones first."""
        if item is None:
            return []
        verified = [
            self._edit_data(fix.candidate.title, describe_result(fix), fix.edits)
            for fix in self._find_fixes(item)
        ]
        return [
            *verified,
            *(self._edit_data(fix.title, "", fix.edits) for fix in item.finding.fixes),
        ]

    def _edit_data(self, title: str, detail: str, edits: Iterable[TextEdit]) -> dict[str, Any]:
        return {
            "title": title,
            "detail": detail,
            "edits": [
                {"range": range_json(edit.range), "newText": edit.new_text}
                for edit in text_edits(self._unit.document, tuple(edits))
            ],
        }

    def _shapes_by_line(self) -> dict[int, list[str]]:
        """Return the traced values of variables by line, formatted as in inlay hints."""
        found = self._unit.results.target_details(self._subject.name).shapes
        places = found.current.by_probe.get(self._probe, ()) if found is not None else ()
        by_line: dict[int, list[str]] = defaultdict(list)
        for place in places:
            if place.role != "expression" and _has_tensor(place):
                words = brief_values(place)
                words_with_name = (
                    f"returns {words}" if place.role == "return" else f"{place.name}: {words}"
                )
                by_line[place.range.start.line].append(words_with_name)
        return by_line

    # -- guards and remarks ------------------------------------------------------------------------

    def _guard_groups(self) -> Iterator[dict[str, Any]]:
        """Yield groups of guards by kind, largest group first."""
        found = self._unit.results.target_details(self._subject.name).guards
        frames = found.current.by_probe.get(self._probe, ()) if found is not None else ()
        groups: dict[str, list[tuple[GuardedFrame, FoundGuard]]] = defaultdict(list)
        for frame in frames:
            for guard in frame.guards:
                groups[_GUARD_KINDS.get(guard.kind, _kind_words(guard.kind))].append((frame, guard))
        for name, guards in sorted(groups.items(), key=lambda group: -len(group[1])):
            guard_list = [self._guard_data(frame, guard) for frame, guard in guards[:MOST_GUARDS]]
            yield {"name": name, "count": len(guards), "guards": guard_list}

    def _guard_data(self, frame: GuardedFrame, guard: FoundGuard) -> dict[str, Any]:
        cause = frame.causes[guard.cause] if guard.cause >= 0 else None
        return {
            "subject": in_user_words(guard.source) if guard.source else "",
            "conditions": list(guard_sentences(guard)),
            "line": cause.start.line if cause is not None else None,
        }

    def _other_findings(self) -> Iterator[dict[str, Any]]:
        """Yield the findings of the run, except graph breaks, which are among the steps of the
        trace already.
        """
        breaks = {(step.code, step.range) for step in self._steps if step.kind == "break"}
        for item in remove_ignored(self._findings, self._unit.document.positions):
            if (item.finding.code, item.finding.range) in breaks:
                continue
            yield {
                "code": item.finding.code,
                "severity": item.severity.value,
                "message": message_lines(item.finding)[0],
                "range": self._range_data(item.finding.range),
                "href": item.href,
                "fixes": self._fix_data(item),
            }

    def _range_data(self, range_: Range) -> dict[str, Any]:
        return range_json(range_in(self._unit.document, range_))

    def _line_text(self, line: int) -> str:
        return self._unit.document.positions.line(line).strip()


def _break_title(finding: Finding) -> str:
    """Return the first line of a graph break's message, without the words "Graph break"."""
    return message_lines(finding)[0].removeprefix("Graph break: ")


def _dynamo_text(finding: Finding) -> str:
    return explanation(finding).removeprefix("Dynamo: ")


def _report_facts(report: TargetReport) -> dict[str, Any]:
    return {
        "number": report.probe_number,
        "status": report.status,
        "error": (report.error or "").strip().split("\n", 1)[0],
        "mode": report.mode,
        "probe": probe_words(report.probe) if report.probe is not None else "",
        "inputs": probe_inputs(report.probe) if report.probe is not None else "",
        "graphs": report.graphs,
        "ops": report.ops,
        "breaks": report.breaks,
        "guards": report.guards,
        "recompiles": report.recompiles,
        "lines": report.lines,
        "linesTraced": report.lines_traced,
        "paths": [path.words for path in report.paths if path.status == "traced"],
        "seconds": report.seconds,
    }


def _has_tensor(place: PlaceShapes) -> bool:
    return any(value.kind in ("tensor", "several") for value in place.values)


def _kind_words(kind: str) -> str:
    """Convert a guard kind to words: ``DICT_CONTAINS`` to ``Dict contains``."""
    return kind.replace("_", " ").capitalize()
