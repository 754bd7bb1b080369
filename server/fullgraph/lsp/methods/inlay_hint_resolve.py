"""``inlayHint/resolve``: a tooltip with all known facts about the value of the selected hint."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import data_value
from fullgraph.render import shapes

METHOD = types.INLAY_HINT_RESOLVE


def handle(context: ServerContext, params: types.InlayHint) -> types.InlayHint:
    """Add a tooltip to an inlay hint; return it unchanged if the text has changed since."""
    uri, version = data_value(params.data, "uri"), data_value(params.data, "version")
    unit = context.find_unit(uri) if isinstance(uri, str) else None
    if unit is None or unit.document.version != version:
        return params
    where = tuple(data_value(params.data, key) for key in ("line", "byte", "role"))
    for place in unit.view.seen_shapes():
        start = place.range.start
        if (start.line, start.byte, place.role) == where:
            page = shapes.values_page(place, place.name, unit.view.shape_counts(place))
            params.tooltip = types.MarkupContent(types.MarkupKind.Markdown, page)
            break
    return params
