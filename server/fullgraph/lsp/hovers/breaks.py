"""Hover section with the cost of the graph breaks under the cursor."""

from __future__ import annotations

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.render import breaks, shapes
from fullgraph.session.analysis_unit import AnalysisUnit


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the costs of the graph breaks at ``offset`` (code points); None without
    graph breaks."""
    positions, pages = unit.document.positions, []
    extent = 0, len(unit.document.text)
    for item in unit.view.findings():
        cost, range_ = item.finding.cost, item.finding.range
        start, end = positions.offset(range_.start), positions.offset(range_.end)
        if cost is not None and start <= offset <= end:
            pages.append(breaks.cost_page(cost))
            extent = min(extent, (start, end), key=lambda span: span[1] - span[0])
    text = "\n\n".join(dict.fromkeys(pages))
    return HoverSection(text, shapes.strip_markdown(text), *extent) if text else None
