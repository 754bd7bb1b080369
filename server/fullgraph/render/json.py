"""The JSON output of ``fullgraph check``. Lines and UTF-16 characters are zero-based."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fullgraph.domain.causes import rank_by_cost
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.notebooks import find_cell_in_file
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.measured import measured_json
from fullgraph.render.numerics import numerics_json
from fullgraph.render.places import Span, file_span, shown_path
from fullgraph.render.timings import timings_json
from fullgraph_engine.protocol import (
    BreakCost,
    Compilation,
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


def check_json(checked: CheckResults, shard: Mapping[str, Any] | None = None) -> str:
    """Format the results of a check as JSON, in the format with the number ``VERSION``.

    ``shard`` is the value of the key ``shard``, if only a part of the files was checked.
    """
    document: dict[str, Any] = {
        "version": VERSION,
        "torch": checked.torch or None,
        "python": checked.python or None,
        "files": [_file_json(file) for file in checked.files],
    }
    if checked.problems:
        document["errors"] = list(checked.problems)
    if checked.missing:
        document["unanalyzed"] = list(checked.missing)
    if shard is not None:
        document["shard"] = shard
    return dump_json(document)


def dump_json(document: object) -> str:
    """Serialize an object as indented JSON; surrogates that UTF-8 cannot encode are escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document, indent=2)
    return text


def _file_json(file: CheckedFile) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": file.path,
        "seconds": round(file.seconds, 3),
        "targets": [_target_json(file, report) for report in file.targets],
        "findings": _findings_json(file),
    }
    if file.timed:
        plain["measured"] = [measured_json(entry) for entry in file.timed]
    if file.numerics:
        plain["numerics"] = [numerics_json(entry) for entry in file.numerics]
    if file.timings:
        plain["timings"] = [timings_json(entry) for entry in file.timings]
    if file.known:
        plain["known"] = file.known
    if file.left_out:
        plain["leftOut"] = list(file.left_out)
    if file.stale:
        plain["stale"] = file.stale
    if file.notes:
        plain["notes"] = list(file.notes)
    if file.problem:
        plain["error"] = file.problem
    return plain


def _target_json(file: CheckedFile, report: TargetReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "line": report.range.start.line,
        "kind": report.kind,
        "status": report.status,
        "mode": report.mode,
        "probe": _probe_json(report.probe),
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
        "compilation": _compilation_json(report.compilation),
        "error": report.error,
        "compiled": report.compiled,
        "within": report.within or None,
        "region": _region_json(file, report.region) if report.region is not None else None,
        "forecast": [
            _forecast_json(file, forecast)
            for forecast in file.forecasts
            if forecast.target == report.name
        ],
    }


def _compilation_json(compilation: Compilation | None) -> dict[str, Any] | None:
    """Convert the result of compiling a function after its trace to JSON data."""
    if compilation is None:
        return None
    return {**to_plain(compilation), "seconds": round(compilation.seconds, 3)}


def _region_json(file: CheckedFile, region: Region) -> dict[str, Any]:
    """Convert a compiled function that a program ran to JSON data; ``site`` is the source range of
    the torch.compile call."""
    return {
        "program": shown_path(file, region.program),
        "api": region.api,
        "options": dict(region.options),
        "calls": region.calls,
        "inlined": region.inlined,
        "site": {
            "path": shown_path(file, region.site.path),
            "range": range_json(file_span(file, region.site.path, region.site.range)),
        },
    }


def _forecast_json(file: CheckedFile, forecast: ForecastFound) -> dict[str, Any]:
    """Convert the forecast of recompiles of a function, traced with one set of inputs, to JSON
    data."""
    return {
        "run": str(forecast.run),
        "note": forecast.note,
        "seconds": round(forecast.seconds, 3),
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "first": row.first,
                "tried": list(row.tried),
                "verdict": row.verdict,
                "reasons": list(row.reasons),
                "range": range_json(file_span(file, file.path, row.range)) if row.range else None,
            }
            for row in forecast.rows
        ],
    }


def _probe_json(probe: ProbeInfo | None) -> dict[str, str] | None:
    if probe is None:
        return None
    return {
        "origin": probe.origin,
        "init": probe.init,
        "inputs": probe.inputs,
        "source": probe.source,
        **({"context": probe.context} if probe.context else {}),
    }


def finding_source(file: CheckedFile, item: FileFinding) -> str:
    """Return the source code of a finding as one line with normalized spaces, so that reformatting
    does not change it."""
    return " ".join(file.text.text_in(item.finding.range).split())


def _findings_json(file: CheckedFile) -> list[dict[str, Any]]:
    ranks = {id(item): number for number, item in enumerate(rank_by_cost(file.findings), 1)}
    return [_finding_json(file, item, ranks.get(id(item))) for item in file.findings]


def _finding_json(file: CheckedFile, item: FileFinding, rank: int | None) -> dict[str, Any]:
    finding = item.finding
    return {
        "id": item.id,
        "code": finding.code,
        "severity": item.severity.value,
        "message": finding.message,
        "target": finding.target,
        "range": range_json(file_span(file, file.path, finding.range)),
        "text": finding_source(file, item),
        **_cell_json(file, finding.range),
        "count": finding.count,
        "calls": {one.region: list(one.numbers) for one in finding.calls},
        "related": [
            {
                "path": shown_path(file, related.path),
                "range": range_json(file_span(file, related.path, related.range)),
                "message": related.message,
            }
            for related in finding.related
        ],
        "href": item.href,
        "causes": [
            {**to_plain(cause), "path": shown_path(file, cause.path) if cause.path else ""}
            for cause in finding.causes
        ],
        "cost": _cost_json(finding.cost, rank),
        "data": {
            "names": to_plain(finding.names),
            "evidence": to_plain(finding.evidence),
            "explanation": finding.explanation,
            "hints": list(finding.hints),
            "context": finding.context,
            "notes": list(finding.notes),
            "only": finding.only,
            "targets": list(item.targets),
            "mode": finding.mode,
            "stack": [_frame_json(file, frame) for frame in finding.stack],
            "fixes": [_fix_json(file, fix) for fix in finding.fixes],
        },
    }


def _cell_json(file: CheckedFile, place: Range) -> dict[str, Any]:
    """Return the cell of a range in a notebook (from 1) and the line in the cell (from 0)."""
    cell = find_cell_in_file(file.path, file.text, place.start.line)
    return {"cell": {"number": cell.cell, "line": cell.line}} if cell is not None else {}


def _cost_json(cost: BreakCost | None, rank: int | None) -> dict[str, Any] | None:
    """Convert the cost of a graph break to JSON data; ``rank`` is 1 for the costliest break of the
    file, None without a rank."""
    if cost is None:
        return None
    derived = {"separated": cost.separated, "worth_fixing": cost.worth_fixing}
    return {**to_plain(cost), **derived, "rank": rank}


def _frame_json(file: CheckedFile, frame: Frame) -> dict[str, Any]:
    place = Range(Position(frame.line, frame.byte), Position(frame.line, frame.byte))
    return {
        "path": shown_path(file, frame.path),
        "function": frame.function,
        "line": frame.line,
        "character": file_span(file, frame.path, place).character,
        "text": frame.text,
    }


def _fix_json(file: CheckedFile, fix: Fix) -> dict[str, Any]:
    edits = [
        {"range": range_json(file_span(file, file.path, edit.range)), "text": edit.text}
        for edit in fix.edits
    ]
    return {"title": fix.title, "edits": edits}


def range_json(place: Span) -> dict[str, Any]:
    """Convert a range to the JSON form of LSP."""
    return {
        "start": {"line": place.line, "character": place.character},
        "end": {"line": place.end_line, "character": place.end_character},
    }
