"""Merge the findings of all runs of a file.

Each target is traced in its own runs, so two targets that share a layer both report its graph
break. This module merges such findings into one with a count, assigns severities and sorts them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeVar

from fullgraph.domain import codes
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding, add_ids, keep_latest
from fullgraph.domain.paths import shorten_paths
from fullgraph.domain.wording import MOST
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Finding, RunId, merge_calls, merge_names
from fullgraph_engine.protocol.evidence import BreakEvidence

T = TypeVar("T")

_VERBATIM = ("trace/eager-error", "trace/import-error", "trace/sandboxed")


def merge_findings(
    findings: Iterable[Finding],
    settings: Settings,
    targets: Sequence[str] = (),
    folder: str = "",
) -> tuple[FileFinding, ...]:
    """Return the findings of all runs of one text, merged and in the order of the text.

    Findings that differ only in their target become one, with the text of the first target in
    ``targets`` and its first run. Paths in messages become relative to the workspace folder
    ``folder``.
    """
    places = {name: number for number, name in enumerate(targets)}
    groups: dict[object, list[Finding]] = {}
    for finding in keep_latest(findings):
        if codes.is_selected(finding.code, settings.select, settings.ignore):
            groups.setdefault(_merge_key(finding), []).append(finding)
    merged = []
    for group in groups.values():
        severity = _choose_severity(group, settings)
        if severity is not Severity.OFF:
            group.sort(key=lambda one: (places.get(one.target, -1), one.run or RunId(one.target)))
            merged.append(
                _merge_group([_shorten_finding_paths(one, folder) for one in group], severity)
            )
    return add_ids(sort_findings(merged))


def sort_findings(found: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """Return the findings in the order of the text."""
    return tuple(sorted(found, key=_sort_key))


def _choose_severity(group: Sequence[Finding], settings: Settings) -> Severity:
    """Return the severity of merged findings. A graph break that raises, as under
    ``fullgraph=True``, is an error unless the user set a severity."""
    code = group[0].code
    severity = codes.effective_severity(code, settings.severity)
    raised = any(
        isinstance(one.evidence, BreakEvidence) and one.evidence.outcome == "raised"
        for one in group
    )
    chosen = any(codes.matches_selector(code, selector) for selector in settings.severity)
    return Severity.ERROR if raised and not chosen else severity


def _merge_key(finding: Finding) -> object:
    identity = finding.identity or finding.message
    return finding.code, finding.range, identity


def _shorten_finding_paths(finding: Finding, folder: str) -> Finding:
    """Return the finding with shortened paths. Findings with output of user code or of the sandbox
    are unchanged."""
    if finding.code in _VERBATIM:
        return finding

    def shorten_text(words: str) -> str:
        return shorten_paths(words, folder)

    return dataclasses.replace(
        finding,
        message=shorten_text(finding.message),
        explanation=shorten_text(finding.explanation),
        hints=tuple(map(shorten_text, finding.hints)),
        context=shorten_text(finding.context),
        notes=tuple(map(shorten_text, finding.notes)),
        related=tuple(
            dataclasses.replace(one, message=shorten_text(one.message)) for one in finding.related
        ),
    )


def _merge_group(group: list[Finding], severity: Severity) -> FileFinding:
    first = group[0]
    step = codes.find_row(first.code).next_step
    targets = _unique_items(finding.target for finding in group if finding.target)
    everywhere = next((finding for finding in group if not finding.only), None)
    only = "" if everywhere else " or ".join(_unique_items(finding.only for finding in group))
    finding = dataclasses.replace(
        first,
        message=_limit_to_paths(first.message, only) if only else first.message,
        # A finding on all execution paths does not depend on a path.
        path=None if everywhere else first.path,
        hints=first.hints or ((step,) if step else ()),
        count=sum(finding.count for finding in group),
        related=_unique_items(related for finding in group for related in finding.related),
        names=merge_names(name for finding in group for name in finding.names),
        calls=merge_calls(calls for finding in group for calls in finding.calls),
        notes=_unique_items(note for finding in group for note in finding.notes),
        fixes=_unique_items(fix for finding in group for fix in finding.fixes),
        # Mention real tensors only if no trace with fake tensors had the same finding.
        causes=tuple({one.identity: one for f in group for one in f.causes}.values()),
        cost=max((f.cost for f in group if f.cost), key=lambda one: one.rank, default=None),
        mode="fake" if any(finding.mode == "fake" for finding in group) else first.mode,
    )
    href = first.href or codes.documentation_url(first.code)
    return FileFinding(finding, severity, targets, href, tuple(group))


def _limit_to_paths(message: str, only: str) -> str:
    """Add to a message the execution paths ``only`` on which the finding occurs.

    The paths are added to the first line if it stays short and does not contain advice, else as a
    new line.
    """
    line = f"{message}, only {only}"
    return line if len(line) <= MOST and "; " not in message else f"{message}\nOnly {only}."


def _unique_items(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _sort_key(item: FileFinding) -> tuple[int, int, int, str]:
    start = item.finding.range.start
    return start.line, start.byte, item.severity.number, item.finding.code
