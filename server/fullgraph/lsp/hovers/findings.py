"""Hover section with the findings under the cursor and how to fix them."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.wording import consequence, explanation, message_lines
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.fix_actions import fix_state_words
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.render import shapes
from fullgraph.render.breaks import cost_clause
from fullgraph.session.analysis_unit import AnalysisUnit

_MOST_HINTS = 3
_PARAGRAPH = "\n\n"


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the findings at ``offset`` (code points), narrowest range first; None
    without findings.

    Also None for clients that show diagnostics in their hover themselves.
    """
    if not context.client.hover_findings:
        return None
    positions = unit.document.positions
    matches = []
    for item in unit.view.findings():
        range_ = item.finding.range
        start, end = positions.offset(range_.start), positions.offset(range_.end)
        if start <= offset <= end:
            matches.append((end - start, start, end, item))
    if not matches:
        return None
    matches.sort(key=lambda found: found[0])
    _, start, end, _ = matches[0]
    page = "\n\n---\n\n".join(
        "\n\n".join(_finding_blocks(item, fix_state_words(context, unit, item)))
        for *_, item in matches
    )
    return HoverSection(page, shapes.strip_markdown(page), start, end)


def _finding_blocks(item: FileFinding, fix_state: str) -> Iterator[str]:
    finding = item.finding
    first, *more = message_lines(finding)
    yield f"**{first}**"
    yield from more
    yield from filter(None, [consequence(finding)])
    if finding.cost is not None:
        yield f"Cost: {cost_clause(finding.cost)}."
    ways = [*(fix.title for fix in finding.fixes), *finding.hints[:_MOST_HINTS]]
    if ways:
        yield "\n".join(f"- {' '.join(way.split())}" for way in ways)
    if fix_state:
        yield fix_state
    yield f"[{finding.code}]({item.href})" if item.href else finding.code
    if words := explanation(finding):
        yield f"---\n\n{words.split(_PARAGRAPH)[0]}"
