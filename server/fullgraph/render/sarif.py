"""Format the results of a check as SARIF 2.1.0 for code scanning services. Lines and UTF-16 columns
count from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fullgraph import __version__
from fullgraph.domain import codes
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guard_names import other_names
from fullgraph.domain.wording import finding_lines
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.fingerprints import line_hashes, stable_fingerprint
from fullgraph.render.json import dump_json
from fullgraph.render.places import Span, file_span, shown_path
from fullgraph_engine.protocol import Fix, Frame, Position, Range

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://github.com/fullgraph/fullgraph"
_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
    Severity.OFF: "none",
}


def check_sarif(checked: CheckResults) -> str:
    """Format the results of a check as SARIF with one run; problems of the check become tool
    notifications."""
    rules = sorted({item.finding.code for item in checked.findings()})
    indices = {rule: index for index, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "fullgraph",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": _HOME,
                "rules": [_rule_json(code) for code in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not checked.incomplete,
                "toolExecutionNotifications": list(_notifications(checked)),
            }
        ],
        "columnKind": "utf16CodeUnits",
        "artifacts": [{"location": _artifact_json(file.path)} for file in checked.files],
        "results": [
            _result_json(file, item, indices[item.finding.code], hashes)
            for file in checked.files
            for hashes in [line_hashes("\n".join(file.text.lines)) if file.findings else {}]
            for item in file.findings
        ],
    }
    return dump_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule_json(code: str) -> dict[str, Any]:
    row = codes.find_row(code)
    return {
        "id": code,
        "shortDescription": {"text": row.title},
        "fullDescription": {"text": row.help or row.title},
        "help": {"text": row.help or row.title, "markdown": row.help or row.title},
        "helpUri": codes.documentation_url(code) or _HOME,
        "defaultConfiguration": {"level": _LEVELS[row.severity]},
        "properties": {"tags": ["torch.compile", code.partition("/")[0]]},
    }


def _notifications(checked: CheckResults) -> Iterable[dict[str, Any]]:
    for problem in checked.problems:
        yield {"level": "error", "message": {"text": problem}}
    for file in checked.files:
        place = [{"physicalLocation": {"artifactLocation": _artifact_json(file.path)}}]
        if file.problem:
            yield {"level": "error", "message": {"text": file.problem}, "locations": place}
        for note in file.notes:
            yield {"level": "note", "message": {"text": note}, "locations": place}


def _result_json(
    file: CheckedFile, item: FileFinding, rule: int, hashes: Mapping[int, str]
) -> dict[str, Any]:
    finding = item.finding
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[item.severity],
        "message": {"text": _message_text(item)},
        "locations": [_location_json(file, file.path, finding.range)],
        "occurrenceCount": max(1, finding.count),
        "partialFingerprints": {
            "fullgraph/v1": stable_fingerprint(file, item),
            "primaryLocationLineHash": hashes.get(finding.range.start.line, ""),
        },
        "properties": {
            "targets": list(item.targets),
            "mode": finding.mode,
            "calls": {one.region: list(one.numbers) for one in finding.calls},
            "causes": [cause.identity for cause in finding.causes],
        },
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                **_location_json(file, related.path, related.range),
                "message": {"text": related.message},
            }
            for number, related in enumerate(finding.related, start=1)
        ]
    if len(finding.stack) > 1:
        steps = [{"location": _frame_json(file, frame)} for frame in finding.stack]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.fixes:
        result["fixes"] = [_fix_json(file, fix) for fix in finding.fixes]
    return result


def _message_text(item: FileFinding) -> str:
    finding = item.finding
    hints = [f"Hint: {hint}" for hint in finding.hints]
    also = [f"Also: {name}" for name in other_names(finding)]
    parts = (*finding_lines(finding), *also, *hints)
    return "\n".join(part for part in parts if part)


def _location_json(file: CheckedFile, path: str, place: Range) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact_json(shown_path(file, path)),
            "region": _region_json(file_span(file, path, place)),
        }
    }


def _frame_json(file: CheckedFile, frame: Frame) -> dict[str, Any]:
    start = Position(frame.line, frame.byte)
    known = frame.end_byte >= 0
    last = frame.end_line if frame.end_line >= 0 else frame.line
    end = Position(last, frame.end_byte) if known else start
    location = _location_json(file, frame.path, Range(start, end))
    if not known:
        location["physicalLocation"]["region"] = {"startLine": frame.line + 1}
    return {**location, "message": {"text": f"in {frame.function}"}}


def _fix_json(file: CheckedFile, fix: Fix) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": _region_json(file_span(file, file.path, edit.range)),
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact_json(file.path), "replacements": replacements}
    return {"description": {"text": fix.title}, "artifactChanges": [change]}


def _region_json(place: Span) -> dict[str, int]:
    return {
        "startLine": place.line + 1,
        "startColumn": place.character + 1,
        "endLine": place.end_line + 1,
        "endColumn": place.end_character + 1,
    }


def _artifact_json(path: str) -> dict[str, str]:
    """Return the SARIF location of a file: a URI for an absolute path, else a path relative to the
    folder that was checked."""
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(Path(path).as_posix())}
