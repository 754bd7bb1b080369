"""``textDocument/inlayHint``: traced values behind the names that they were assigned to."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import position_key
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.hints import (
    Annotation,
    Hint,
    choose_hinted_places,
    find_annotation,
    line_hints,
)
from fullgraph_engine.protocol.shapes import PlaceShapes

METHOD = types.TEXT_DOCUMENT_INLAY_HINT


def handle(context: ServerContext, params: types.InlayHintParams) -> list[types.InlayHint]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None:
        return []
    unit.look_at(params.range.start.line, params.range.end.line)
    first, last = position_key(params.range.start), position_key(params.range.end)
    by_line: dict[int, list[PlaceShapes]] = defaultdict(list)
    for place in choose_hinted_places(
        unit.view.seen_shapes(), context.session.workspace.settings(unit.document)
    ):
        if params.range.start.line <= place.range.end.line <= params.range.end.line:
            by_line[place.range.end.line].append(place)
    hints = []
    for places in by_line.values():
        for hint in line_hints(
            [(place, _run_count(unit, place)) for place in places],
            [_annotation(unit, place) for place in places],
        ):
            position = _hint_position(unit, hint)
            if first <= position <= last:
                hints.append(_inlay_hint(unit, hint, types.Position(*position)))
    return hints


def _run_count(unit: AnalysisUnit, place: PlaceShapes) -> int:
    return max(unit.view.shape_counts(place).values(), default=place.count)


def _annotation(unit: AnalysisUnit, place: PlaceShapes) -> Annotation | None:
    document = unit.document
    return find_annotation(document.text, place, document.positions.offset(place.range.end))


def _hint_position(unit: AnalysisUnit, hint: Hint) -> tuple[int, int]:
    document = unit.document
    if hint.annotation_end is not None:
        return document.position_at(hint.annotation_end)
    return document.positions.character(hint.place.range.end, document.encoding)


def _inlay_hint(unit: AnalysisUnit, hint: Hint, position: types.Position) -> types.InlayHint:
    place = hint.place
    return types.InlayHint(
        position=position,
        label=hint.label,
        kind=types.InlayHintKind.Type,
        padding_left=place.role == "return" or hint.annotation_end is not None,
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
