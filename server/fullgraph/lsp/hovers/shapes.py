"""Hover section with the values that an expression had in the last trace."""

from __future__ import annotations

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.render import shapes
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph_engine.protocol.shapes import PlaceShapes

_LONGEST = 60
"""Maximum number of characters of the hovered expression's code in the hover section about its
values.
"""


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the values of the smallest traced expression around ``offset`` (code
    points); None without values."""
    text, positions = unit.document.text, unit.document.positions
    place: PlaceShapes | None = None
    extent = 0, len(text)
    line = text.count("\n", 0, offset) if "\r" not in text else None
    for candidate in unit.view.seen_shapes():
        if line is not None and not candidate.range.start.line <= line <= candidate.range.end.line:
            continue
        start, end = positions.offset(candidate.range.start), positions.offset(candidate.range.end)
        # If several expressions share a range, the last one is the returned value.
        if start <= offset <= end and end - start <= extent[1] - extent[0]:
            place, extent = candidate, (start, end)
    if place is None:
        return None
    code = text[slice(*extent)]
    shown = code if "\n" not in code and len(code) <= _LONGEST else place.name
    note = unit.view.shapes_note
    values = shapes.values_page(place, shown, unit.view.shape_counts(place))
    page = f"**Seen in the last trace**\n\n{values}"
    page += f"\n\n{note}" if note else ""
    return HoverSection(page, shapes.strip_markdown(page), *extent)
