"""Shapes of values that the last runs saw, by source range, which moves with edits of the text.

Shapes on an edited line are dropped until the next run, because the value may have changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import AppliedEdit
from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen

_Places = Mapping[tuple[Range, ShapeRole], PlaceShapes]


@dataclass(frozen=True)
class ShapesByTarget:
    """Shapes that the runs of one target saw, by the number of the probe (the inputs of one run)
    and in this order.
    """

    by_probe: Mapping[int, _Places]
    note: str = ""

    @classmethod
    def from_places(
        cls, places: Iterable[PlaceShapes], note: str = "", probe_number: int = 0
    ) -> ShapesByTarget:
        return cls({probe_number: _by_key(places)}, note)

    @cached_property
    def places(self) -> _Places:
        """Shapes from the runs with all inputs, merged by source range."""
        return _merge_places(self.by_probe.values())

    def merge_with(self, other: ShapesByTarget) -> ShapesByTarget:
        """Return the shapes combined with shapes of a run with another probe (other inputs)."""
        both = {**self.by_probe, **other.by_probe}
        return ShapesByTarget(dict(sorted(both.items())), self.note or other.note)

    def apply_edit(self, edit: AppliedEdit) -> ShapesByTarget:
        """Return the shapes with ranges moved by an edit, without shapes on lines that the edit
        touches.
        """
        by_probe = {
            number: _by_key(_shift_places(places.values(), edit))
            for number, places in self.by_probe.items()
        }
        return ShapesByTarget(by_probe, self.note)

    def apply_relocation(self, move: Relocation) -> ShapesByTarget:
        by_probe = {
            number: _by_key(
                dataclasses.replace(place, range=move.move_range(place.range, "expression"))
                for place in places.values()
            )
            for number, places in self.by_probe.items()
        }
        return ShapesByTarget(by_probe, self.note)


def all_shapes(targets: Iterable[ShapesByTarget]) -> tuple[PlaceShapes, ...]:
    """Return the shapes of all targets, merged by source range, in the order of the text."""
    together = _merge_places(target.places for target in targets)
    return tuple(sorted(together.values(), key=_place_order))


def _by_key(places: Iterable[PlaceShapes]) -> _Places:
    return {(place.range, place.role): place for place in places}


def _shift_places(places: Iterable[PlaceShapes], edit: AppliedEdit) -> Iterator[PlaceShapes]:
    first = edit.start.line
    last = edit.end.line - 1 if edit.whole else edit.end.line
    for place in places:
        start, end = place.range.start.line, place.range.end.line
        if end < first:
            yield place
        elif start > last:
            moved = edit.shift_range(place.range)
            if moved is not None:
                yield dataclasses.replace(place, range=moved)


def _merge_places(seen: Iterable[_Places]) -> _Places:
    """Merge the shapes that several runs saw at each source range: the values of all, in the order
    of the runs.
    """
    together: dict[tuple[Range, ShapeRole], PlaceShapes] = {}
    for places in seen:
        for key, place in places.items():
            known = together.get(key)
            together[key] = _merge_values(known, place) if known is not None else place
    return together


def _merge_values(one: PlaceShapes, other: PlaceShapes) -> PlaceShapes:
    values: dict[ShapeSeen, ShapeSeen] = {}
    for value in (*one.values, *other.values):
        told = dataclasses.replace(value, graph=0, node="", count=0)
        known = values.get(told)
        values[told] = (
            value if known is None else dataclasses.replace(known, count=known.count + value.count)
        )
    left_out = one.left_out + other.left_out
    return dataclasses.replace(one, values=tuple(values.values()), left_out=left_out)


def _place_order(place: PlaceShapes) -> tuple[int, int, int, int]:
    start, end = place.range.start, place.range.end
    return start.line, start.byte, -end.line, -end.byte
