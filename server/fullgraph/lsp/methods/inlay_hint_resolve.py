"""``inlayHint/resolve``: all that is known of the value of a hint that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import Context
from fullgraph.render import shapes

METHOD = types.INLAY_HINT_RESOLVE


def handle(context: Context, params: types.InlayHint) -> types.InlayHint:
    """The hint as it came where the text is another one by now."""
    uri, version = _get(params.data, "uri"), _get(params.data, "version")
    unit = context.unit(uri) if isinstance(uri, str) else None
    if unit is None or unit.document.version != version:
        return params
    where = tuple(_get(params.data, key) for key in ("line", "byte", "role"))
    for place in unit.shapes():
        start = place.range.start
        if (start.line, start.byte, place.role) == where:
            page = shapes.page(place, place.name)
            params.tooltip = types.MarkupContent(types.MarkupKind.Markdown, page)
            break
    return params


def _get(data: Any, key: str) -> Any:
    """Clients send the data of a hint back as they got it."""
    return data.get(key) if isinstance(data, Mapping) else getattr(data, key, None)
