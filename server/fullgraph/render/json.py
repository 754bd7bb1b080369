"""The JSON format: one object, made for programs. Lines and UTF-16 characters count from zero."""

from __future__ import annotations

import json
from typing import Any

from fullgraph.domain.causes import costliest
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.notebooks import cell_of
from fullgraph.render.checked import Checked, CheckedFile
from fullgraph.render.measured import measured_json
from fullgraph.render.places import Span, shown_path, span
from fullgraph.render.timings import timings_json
from fullgraph_engine.protocol import (
    BreakCost,
    Fix,
    ForecastFound,
    Frame,
    Position,
    ProbeInfo,
    Range,
    Region,
    TargetReport,
    to_plain,
)

VERSION = 1


def check_json(checked: Checked) -> str:
    """The results of a check as JSON text, in the format that ``VERSION`` numbers."""
    document: dict[str, Any] = {
        "version": VERSION,
        "torch": checked.torch or None,
        "python": checked.python or None,
        "files": [_file(file) for file in checked.files],
    }
    if checked.problems:
        document["errors"] = list(checked.problems)
    return dump(document)


def dump(document: object) -> str:
    """Readable JSON; what UTF-8 cannot hold (half a surrogate pair) is escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document, indent=2)
    return text


def _file(file: CheckedFile) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": file.path,
        "seconds": round(file.seconds, 3),
        "targets": [_target(file, report) for report in file.targets],
        "findings": _findings(file),
    }
    if file.timed:
        plain["measured"] = [measured_json(one) for one in file.timed]
    if file.timings:
        plain["timings"] = [timings_json(one) for one in file.timings]
    if file.known:
        plain["known"] = file.known
    if file.notes:
        plain["notes"] = list(file.notes)
    if file.problem:
        plain["error"] = file.problem
    return plain


def _target(file: CheckedFile, report: TargetReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "line": report.range.start.line,
        "kind": report.kind,
        "status": report.status,
        "mode": report.mode,
        "probe": _probe(report.probe),
        "graphs": report.graphs,
        "ops": report.ops,
        "breaks": report.breaks,
        "skips": report.skips,
        "guards": report.guards,
        "recompiles": report.recompiles,
        "chosen": report.chosen,
        "lines": report.lines,
        "linesTraced": report.lines_traced,
        "untraced": list(report.untraced),
        "paths": [
            {"words": path.words, "status": path.status, "reason": path.reason}
            for path in report.paths
        ],
        "seconds": round(report.seconds, 3),
        "error": report.error,
        "compiled": report.compiled,
        "region": _region(file, report.region) if report.region is not None else None,
        "forecast": [
            _forecast(file, made) for made in file.forecasts if made.target == report.name
        ],
    }


def _region(file: CheckedFile, region: Region) -> dict[str, Any]:
    """A region as JSON; ``site`` is the compiling call."""
    return {
        "program": shown_path(file, region.program),
        "api": region.api,
        "options": dict(region.options),
        "calls": region.calls,
        "inlined": region.inlined,
        "site": {
            "path": shown_path(file, region.site.path),
            "range": range_json(span(file, region.site.path, region.site.range)),
        },
    }


def _forecast(file: CheckedFile, made: ForecastFound) -> dict[str, Any]:
    """What further calls of a target recompiled; one for each probe of it."""
    return {
        "run": str(made.run),
        "note": made.note,
        "seconds": round(made.seconds, 3),
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "first": row.first,
                "tried": list(row.tried),
                "verdict": row.verdict,
                "reasons": list(row.reasons),
                "range": range_json(span(file, file.path, row.range)) if row.range else None,
            }
            for row in made.rows
        ],
    }


def _probe(probe: ProbeInfo | None) -> dict[str, str] | None:
    if probe is None:
        return None
    return {
        "origin": probe.origin,
        "init": probe.init,
        "inputs": probe.inputs,
        "source": probe.source,
        **({"context": probe.context} if probe.context else {}),
    }


def finding_words(file: CheckedFile, item: FileFinding) -> str:
    """The code of a finding in one line, however it is laid out."""
    return " ".join(file.text.between(item.finding.range).split())


def _findings(file: CheckedFile) -> list[dict[str, Any]]:
    ranks = {id(item): number for number, item in enumerate(costliest(file.findings), 1)}
    return [_finding(file, item, ranks.get(id(item))) for item in file.findings]


def _finding(file: CheckedFile, item: FileFinding, rank: int | None) -> dict[str, Any]:
    finding = item.finding
    return {
        "code": finding.code,
        "severity": item.severity.value,
        "message": finding.message,
        "target": finding.target,
        "range": range_json(span(file, file.path, finding.range)),
        "text": finding_words(file, item),
        **_cell(file, finding.range),
        "count": finding.count,
        "related": [
            {
                "path": shown_path(file, related.path),
                "range": range_json(span(file, related.path, related.range)),
                "message": related.message,
            }
            for related in finding.related
        ],
        "href": item.href,
        "causes": [
            {**to_plain(cause), "path": shown_path(file, cause.path) if cause.path else ""}
            for cause in finding.causes
        ],
        "cost": _cost(finding.cost, rank),
        "data": {
            "evidence": to_plain(finding.evidence),
            "explanation": finding.explanation,
            "hints": list(finding.hints),
            "context": finding.context,
            "notes": list(finding.notes),
            "only": finding.only,
            "targets": list(item.targets),
            "mode": finding.mode,
            "stack": [_frame(file, frame) for frame in finding.stack],
            "fixes": [_fix(file, fix) for fix in finding.fixes],
        },
    }


def _cell(file: CheckedFile, place: Range) -> dict[str, Any]:
    """In a notebook, the number of the cell from 1 and the line in it from 0."""
    cell = cell_of(file.path, file.text, place.start.line)
    return {"cell": {"number": cell.cell, "line": cell.line}} if cell is not None else {}


def _cost(cost: BreakCost | None, rank: int | None) -> dict[str, Any] | None:
    """``rank`` is 1 for the costliest of the file."""
    if cost is None:
        return None
    derived = {"separated": cost.separated, "worth_fixing": cost.worth_fixing}
    return {**to_plain(cost), **derived, "rank": rank}


def _frame(file: CheckedFile, frame: Frame) -> dict[str, Any]:
    place = Range(Position(frame.line, frame.byte), Position(frame.line, frame.byte))
    return {
        "path": shown_path(file, frame.path),
        "function": frame.function,
        "line": frame.line,
        "character": span(file, frame.path, place).character,
        "text": frame.text,
    }


def _fix(file: CheckedFile, fix: Fix) -> dict[str, Any]:
    edits = [
        {"range": range_json(span(file, file.path, edit.range)), "text": edit.text}
        for edit in fix.edits
    ]
    return {"title": fix.title, "edits": edits}


def range_json(place: Span) -> dict[str, Any]:
    """A range as LSP has it."""
    return {
        "start": {"line": place.line, "character": place.character},
        "end": {"line": place.end_line, "character": place.end_character},
    }
