"""Findings that differ between two checks of a file, converted to the format of the tools'
answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fullgraph.cli.check_report import CheckReport, ReportedFinding
from fullgraph.cli.diff.difference import CheckDifference, compare_checks
from fullgraph.cli.diff.words import change_words, run_words, target_name, unknown_words
from fullgraph.mcp.analysis import Checked
from fullgraph.mcp.answers import ChangedFinding
from fullgraph.render.json import check_json


def compare_checked(
    old: Checked, new: Checked, names: tuple[str, str]
) -> tuple[CheckDifference, list[ChangedFinding]]:
    """Compare two checks of one file, the old and the new side, displayed as ``names``.

    Return the difference, and the findings of both sides, new findings first.
    """
    reports = [
        CheckReport.parse(check_json(checked.results), Path(name))
        for checked, name in zip((old, new), names, strict=True)
    ]
    difference = compare_checks(reports[0], reports[1], names)
    changed = [
        (finding, finding.kind, finding.shown)
        for _, target in difference.each_target()
        for finding in target.findings
    ]
    found = [
        _describe(
            new.subject.short_path,
            kind,
            shown,
            change_words(finding)
            or (finding.uncomputed.reason if finding.uncomputed is not None else ""),
        )
        for finding, kind, shown in changed
    ]
    differing = {id(finding.new) for finding, _, _ in changed if finding.new is not None}
    found += [
        _describe(new.subject.short_path, "remains", finding)
        for file in reports[1].files
        for finding in file.findings
        if id(finding) not in differing
    ]
    order = ("new", "changed", "unknown", "gone", "remains")
    return difference, sorted(found, key=lambda one: order.index(one.change))


def changed_targets(difference: CheckDifference) -> Iterator[str]:
    """Yield a line for each function or class whose trace differs: ``forward: graphs 3 → 1``."""
    for _, target in difference.each_target():
        for run in target.runs:
            yield f"{target_name(target, run)}: {run_words(run, target)}"
        for words in unknown_words(target):
            yield f"{target.name}: {words}"


def _describe(path: str, change: str, finding: ReportedFinding, why: str = "") -> ChangedFinding:
    return ChangedFinding(
        change,
        finding.code,
        finding.severity.value,
        f"{path}:{finding.line + 1}:{finding.character + 1}",
        finding.message,
        finding.text,
        why,
    )
