"""Shapes seen by the last runs, by place, moved with the text.

A place on an edited line is dropped until the next run, because its value may have changed.
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
    """Shapes seen by the runs of one target, by probe number and in this order."""

    by_probe: Mapping[int, _Places]
    note: str = ""

    @classmethod
    def from_places(
        cls, places: Iterable[PlaceShapes], note: str = "", probe_number: int = 0
    ) -> ShapesByTarget:
        return cls({probe_number: _by_key(places)}, note)

    @cached_property
    def places(self) -> _Places:
        """Shapes of the runs with all probes, in the order of the probes."""
        return _merge_places(self.by_probe.values())

    def merge_with(self, other: ShapesByTarget) -> ShapesByTarget:
        """Return the shapes combined with the ones of another probe."""
        both = {**self.by_probe, **other.by_probe}
        return ShapesByTarget(dict(sorted(both.items())), self.note or other.note)

    def apply_edit(self, edit: AppliedEdit) -> ShapesByTarget:
        """Return the shapes after an edit, without places on lines that it touches."""
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
    """Return the shapes of all targets, each place once, in the order of the text."""
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
    """Merge the shapes of several runs, each place once."""
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
