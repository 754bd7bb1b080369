"""``textDocument/inlayHint``: traced values behind the names that they were assigned to."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import position_key
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.hints import choose_hinted_places, hint_label
from fullgraph_engine.protocol.shapes import PlaceShapes

METHOD = types.TEXT_DOCUMENT_INLAY_HINT


def handle(context: ServerContext, params: types.InlayHintParams) -> list[types.InlayHint]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None:
        return []
    unit.look_at(params.range.start.line, params.range.end.line)
    first, last = position_key(params.range.start), position_key(params.range.end)
    hints = []
    for place in choose_hinted_places(
        unit.view.seen_shapes(), context.session.workspace.settings(unit.document)
    ):
        if not params.range.start.line <= place.range.end.line <= params.range.end.line:
            continue
        end = unit.document.positions.character(place.range.end, unit.document.encoding)
        if first <= end <= last:
            hints.append(_inlay_hint(unit, place, types.Position(*end)))
    return hints


def _inlay_hint(
    unit: AnalysisUnit, place: PlaceShapes, position: types.Position
) -> types.InlayHint:
    return types.InlayHint(
        position=position,
        label=hint_label(place),
        kind=types.InlayHintKind.Type,
        padding_left=place.role == "return",
        data=_hint_data(unit, place),
    )


def _hint_data(unit: AnalysisUnit, place: PlaceShapes) -> dict[str, Any]:
    """Return the data that ``inlayHint/resolve`` needs to find the source range of the hint
    again."""
    start = place.range.start
    return {
        "uri": unit.document.uri,
        "version": unit.document.version,
        "line": start.line,
        "byte": start.byte,
        "role": place.role,
    }
