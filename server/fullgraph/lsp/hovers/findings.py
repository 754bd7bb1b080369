"""Why there is a finding under the cursor, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.calls import headline
from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import Context
from fullgraph.lsp.hovers.section import Section
from fullgraph.render import shapes
from fullgraph.session.analysis_unit import Unit

_MOST_HINTS = 3


def section(context: Context, unit: Unit, offset: int) -> Section | None:
    """The findings at ``offset`` (code points), the narrowest first; None if none.

    None also where the client shows diagnostics in its hover by itself.
    """
    if not context.client.hover_findings:
        return None
    positions = unit.document.positions
    there = []
    for item in unit.findings():
        range_ = item.finding.range
        start, end = positions.offset(range_.start), positions.offset(range_.end)
        if start <= offset <= end:
            there.append((end - start, start, end, item))
    if not there:
        return None
    there.sort(key=lambda found: found[0])
    _, start, end, _ = there[0]
    page = "\n\n---\n\n".join("\n\n".join(_blocks(item)) for *_, item in there)
    return Section(page, shapes.plain(page), start, end)


def _blocks(item: FileFinding) -> Iterator[str]:
    finding = item.finding
    yield f"**{headline(finding)}**"
    if finding.explanation and finding.explanation not in finding.message:
        yield finding.explanation.split("\n\n")[0]
    ways = [*(fix.title for fix in finding.fixes), *finding.hints[:_MOST_HINTS]]
    if ways:
        yield "\n".join(f"- {' '.join(way.split())}" for way in ways)
    yield f"[{finding.code}]({item.href})" if item.href else finding.code
