"""Hover section with the values that an expression had in the last trace."""

from __future__ import annotations

from fullgraph.lsp.context import Context
from fullgraph.lsp.hovers.section import Section
from fullgraph.render import shapes
from fullgraph.session.analysis_unit import Unit
from fullgraph_engine.protocol.shapes import PlaceShapes

_LONGEST = 60
"""Maximum number of characters of code that the section repeats."""


def section(context: Context, unit: Unit, offset: int) -> Section | None:
    """Return the values of the innermost traced expression at ``offset`` (code points); None if
    none."""
    text, positions = unit.document.text, unit.document.positions
    place: PlaceShapes | None = None
    extent = 0, len(text)
    line = text.count("\n", 0, offset) if "\r" not in text else None
    for one in unit.shapes():
        if line is not None and not one.range.start.line <= line <= one.range.end.line:
            continue
        start, end = positions.offset(one.range.start), positions.offset(one.range.end)
        # Of several expressions with the same range, the last one is the one that is returned.
        if start <= offset <= end and end - start <= extent[1] - extent[0]:
            place, extent = one, (start, end)
    if place is None:
        return None
    code = text[slice(*extent)]
    shown = code if "\n" not in code and len(code) <= _LONGEST else place.name
    note = unit.shapes_note
    page = f"**Seen in the last trace**\n\n{shapes.page(place, shown)}"
    page += f"\n\n{note}" if note else ""
    return Section(page, shapes.plain(page), *extent)
