"""What the last runs saw values to be, place by place, moved with the text.

A place whose line was edited is forgotten until the next run: what stands there now may be another
value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fullgraph.session.motion import Edit
from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen

_Key = tuple[Range, ShapeRole]


@dataclass(frozen=True)
class ShapesByTarget:
    """What the runs of one target saw."""

    places: Mapping[_Key, PlaceShapes]
    note: str = ""

    @classmethod
    def of(cls, places: Iterable[PlaceShapes], note: str = "") -> ShapesByTarget:
        return cls({(place.range, place.role): place for place in places}, note)

    def joined(self, other: ShapesByTarget) -> ShapesByTarget:
        """What either saw, as runs with two probes of a target do."""
        places = dict(self.places)
        for key, place in other.places.items():
            places[key] = _joined(places[key], place) if key in places else place
        return ShapesByTarget(places, self.note or other.note)

    def moved(self, edit: Edit) -> ShapesByTarget:
        """After an edit: what stands on a line that it touched is left out."""
        first = edit.start.line
        # Whole lines that come or go leave the line behind them as it is.
        whole = edit.start.byte == edit.end.byte == edit.new_end.byte == 0
        last = edit.end.line - 1 if whole else edit.end.line
        kept = []
        for place in self.places.values():
            start, end = place.range.start.line, place.range.end.line
            if end < first:
                kept.append(place)
            elif start > last:
                moved = edit.moved(place.range)
                if moved is not None:
                    kept.append(dataclasses.replace(place, range=moved))
        return ShapesByTarget.of(kept, self.note)


def all_shapes(targets: Iterable[ShapesByTarget]) -> tuple[PlaceShapes, ...]:
    """What the runs of all targets saw, each place once, in the order of the text."""
    together = ShapesByTarget({})
    for target in targets:
        together = together.joined(target)
    return tuple(sorted(together.places.values(), key=_order))


def _joined(one: PlaceShapes, other: PlaceShapes) -> PlaceShapes:
    values: dict[ShapeSeen, ShapeSeen] = {}
    for value in (*one.values, *other.values):
        told = dataclasses.replace(value, graph=0, node="", count=0)
        known = values.get(told)
        values[told] = (
            value if known is None else dataclasses.replace(known, count=known.count + value.count)
        )
    left_out = one.left_out + other.left_out
    return dataclasses.replace(one, values=tuple(values.values()), left_out=left_out)


def _order(place: PlaceShapes) -> tuple[int, int, int, int]:
    start, end = place.range.start, place.range.end
    return start.line, start.byte, -end.line, -end.byte
