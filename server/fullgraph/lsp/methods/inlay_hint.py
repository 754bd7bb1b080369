"""``textDocument/inlayHint``: traced values behind the names that they were assigned to."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import Context
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.hints import hinted, label
from fullgraph_engine.protocol.shapes import PlaceShapes

METHOD = types.TEXT_DOCUMENT_INLAY_HINT


def handle(context: Context, params: types.InlayHintParams) -> list[types.InlayHint]:
    unit = context.unit(params.text_document.uri)
    if unit is None:
        return []
    first, last = _key(params.range.start), _key(params.range.end)
    hints = []
    for place in hinted(unit.shapes(), context.session.settings(unit)):
        if not params.range.start.line <= place.range.end.line <= params.range.end.line:
            continue
        end = unit.document.positions.character(place.range.end, unit.document.encoding)
        if first <= end <= last:
            hints.append(_hint(unit, place, types.Position(*end)))
    return hints


def _hint(unit: Unit, place: PlaceShapes, position: types.Position) -> types.InlayHint:
    return types.InlayHint(
        position=position,
        label=label(place),
        kind=types.InlayHintKind.Type,
        padding_left=place.role == "return",
        data=_data(unit, place),
    )


def _data(unit: Unit, place: PlaceShapes) -> dict[str, Any]:
    """Return the data that ``inlayHint/resolve`` needs to find the place again."""
    start = place.range.start
    return {
        "uri": unit.document.uri,
        "version": unit.document.version,
        "line": start.line,
        "byte": start.byte,
        "role": place.role,
    }


def _key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character
