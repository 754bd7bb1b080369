"""``inlayHint/resolve``: a tooltip with all known facts about the value of the selected hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.render import shapes

METHOD = types.INLAY_HINT_RESOLVE


def handle(context: ServerContext, params: types.InlayHint) -> types.InlayHint:
    """Add a tooltip to an inlay hint; return it unchanged if the text has changed since."""
    uri, version = _data_value(params.data, "uri"), _data_value(params.data, "version")
    unit = context.find_unit(uri) if isinstance(uri, str) else None
    if unit is None or unit.document.version != version:
        return params
    where = tuple(_data_value(params.data, key) for key in ("line", "byte", "role"))
    for place in unit.view.seen_shapes():
        start = place.range.start
        if (start.line, start.byte, place.role) == where:
            page = shapes.values_page(place, place.name, unit.view.shape_counts(place))
            params.tooltip = types.MarkupContent(types.MarkupKind.Markdown, page)
            break
    return params


def _data_value(data: Any, key: str) -> Any:
    """Return the value under ``key`` in a hint's data, which clients send back unchanged; None if
    it is missing."""
    return data.get(key) if isinstance(data, Mapping) else getattr(data, key, None)
