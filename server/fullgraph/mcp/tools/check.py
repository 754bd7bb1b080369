"""The tool ``check``: list the findings of a file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fullgraph.domain.phrases import listing
from fullgraph.mcp.analysis import Analyzer, Checked
from fullgraph.mcp.answers import CheckAnswer, ListedFinding, ListedTarget, Refused
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject
from fullgraph.mcp.tools.listing import advise_first, list_finding, list_target, order_findings
from fullgraph.render.terminal import extent_words, severity_words, untraced_words
from fullgraph.session.repro import findings_on_line


@dataclass(frozen=True)
class CheckPart:
    """The part of a file that a caller wants to check; without both fields, the whole file.

    ``line`` is counted from 1; 0 for all lines.
    """

    target: str = ""
    line: int = 0


async def check(
    analyzer: Analyzer,
    subject: Subject,
    part: CheckPart,
    forecast: bool | None,
    show_progress: ShowProgress,
) -> CheckAnswer:
    """Check a text and list all its findings.

    Raises:
        Refused: The text could not be traced, or does not have the target.
    """
    checked = await analyzer.check(subject, show_progress, target=part.target, forecast=forecast)
    reports = checked.file.targets
    if part.target and not any(report.name == part.target for report in reports):
        raise Refused(f"{subject.path} has no target `{part.target}`; `check` lists its targets.")
    findings = order_findings(checked.file.findings)
    if part.line:
        findings = list(findings_on_line(findings, part.line - 1))
    return CheckAnswer(
        path=subject.path,
        hash=subject.hash,
        summary=_summary(checked),
        change_first=advise_first(checked),
        findings=tuple(list_finding(subject, item) for item in findings),
        targets=tuple(list_target(subject, report) for report in reports),
        notes=(*checked.notes, *untraced_words(checked.results)),
    )


def page_check(answer: CheckAnswer, paging: Paging) -> CheckAnswer:
    """Return the part of an answer that fits into the budget.

    Raises:
        Refused: The cursor belongs to another text, or is invalid.
    """
    items: list[ListedFinding | ListedTarget] = [*answer.findings, *answer.targets]
    page = paging.page_items(items)
    return dataclasses.replace(
        answer,
        change_first="" if paging.cursor else answer.change_first,
        findings=tuple(one for one in page.items if isinstance(one, ListedFinding)),
        targets=tuple(one for one in page.items if isinstance(one, ListedTarget)),
        cursor=page.cursor,
    )


def _summary(checked: Checked) -> str:
    found = listing(severity_words(checked.results)) or "no findings"
    return f"{found}; {', '.join(extent_words(checked.results))}."
