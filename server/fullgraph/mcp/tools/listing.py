"""Convert findings and targets to the format in which the tools' answers list them."""

from __future__ import annotations

from fullgraph.domain.causes import rank_by_cost
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import amount, listing
from fullgraph.domain.wording import message_lines
from fullgraph.mcp.analysis import Checked
from fullgraph.mcp.answers import ListedFinding, ListedTarget
from fullgraph.mcp.subjects import Subject
from fullgraph.render.breaks import cause_words, cost_clause
from fullgraph.render.summary import target_line
from fullgraph_engine.protocol import TargetReport


def order_findings(items: tuple[FileFinding, ...]) -> list[FileFinding]:
    """Return the first finding of each cause. Graph breaks with a cost come first, by cost; other
    findings follow by severity and place."""
    firsts = [item for item in items if item.same_as is None]
    ranked = list(rank_by_cost(item for item in firsts))
    costly = [item for item in ranked if item.finding.cost and item.finding.cost.worth_fixing]
    others = [item for item in firsts if item not in costly]
    others.sort(key=lambda item: (item.severity.number, item.finding.range))
    return [*costly, *others]


def list_finding(subject: Subject, item: FileFinding) -> ListedFinding:
    """Convert a finding of a text to the format of the tools' answers."""
    finding = item.finding
    start = finding.range.start
    causes = listing(
        cause_words(cause, start.line) for cause in finding.causes if cause.kind != "place"
    )
    return ListedFinding(
        id=item.id,
        code=finding.code,
        severity=item.severity.value,
        at=subject.locate(start),
        source=subject.line(start.line),
        message=message_lines(finding)[-1 if len(message_lines(finding)) == 2 else 0],
        cost=cost_clause(finding.cost) if finding.cost is not None else "",
        cause=causes,
        targets=item.targets,
        also=tuple(subject.locate(place.start) for place in item.also),
    )


def list_target(subject: Subject, report: TargetReport) -> ListedTarget:
    """Convert the report about a traced function or class to the format of the tools' answers."""
    return ListedTarget(report.name, subject.locate(report.range.start), target_line(report))


def advise_first(checked: Checked) -> str:
    """Return a sentence on the graph break to change first; empty if changing the first finding is
    not worthwhile."""
    ranked = order_findings(checked.file.findings)
    first = next(iter(ranked), None)
    if first is None or first.finding.cost is None or not first.finding.cost.worth_fixing:
        return ""
    place = checked.subject.locate(first.finding.range.start)
    same = ""
    if first.also:
        same = f"; the same cause breaks graphs at {amount(len(first.also), 'more place')}"
    return f"Change {place} first: it is the most expensive graph break{same}."
