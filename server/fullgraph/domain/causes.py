"""Group graph breaks and exceptions by their cause, and rank graph breaks by their cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fullgraph.domain.codes import EAGER_ERROR, Severity
from fullgraph.domain.findings import FileFinding
from fullgraph_engine.protocol import Finding


def group_by_cause(findings: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """Link the findings with equal causes and equal severity, so that an editor shows each cause
    once.

    The first finding with a cause represents the others: its ``also`` gets their ranges. A later
    finding whose causes have all occurred before gets the range of the first one as ``same_as``.
    """
    items = list(findings)
    first_of: dict[tuple[Severity, str], int] = {}
    others: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        causes = [(item.severity, identity) for identity in _cause_identities(item.finding)]
        if causes and all(cause in first_of for cause in causes):
            others[first_of[causes[0]]].append(number)
            continue
        others[number] = []
        for cause in causes:
            first_of.setdefault(cause, number)
    for first, numbers in others.items():
        if numbers:
            also = tuple(items[number].finding.range for number in numbers)
            items[first] = dataclasses.replace(items[first], also=also)
        for number in numbers:
            items[number] = dataclasses.replace(items[number], same_as=items[first].finding.range)
    return tuple(items)


def _cause_identities(finding: Finding) -> list[str]:
    """Return texts that findings with the same cause have in common.

    The cause of an exception is the line that raised it, which may be in another file, such as a
    module that all functions of the file call.
    """
    if finding.code != EAGER_ERROR or not finding.stack:
        return [cause.identity for cause in finding.causes]
    raised = finding.stack[-1]
    return [f"{raised.path}:{raised.line}: {finding.message}"]


def rank_by_cost(findings: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """Return the findings of graph breaks with a known cost, most expensive first.

    Findings with equal costs stay in their given order.
    """
    known = [(item.finding.cost, item) for item in findings]
    ranked = [(cost.rank, item) for cost, item in known if cost is not None]
    return tuple(item for _, item in sorted(ranked, key=lambda pair: pair[0], reverse=True))
