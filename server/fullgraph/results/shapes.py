"""Shapes of values that the last runs saw, by source range."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen

_Places = Mapping[tuple[Range, ShapeRole], PlaceShapes]


@dataclass(frozen=True)
class ProbeShapes:
    """The shapes that one run of a target saw; ``probe`` is the number of the run's example
    inputs.
    """

    probe_number: int
    places: tuple[PlaceShapes, ...]

    def count_at(self, key: tuple[Range, ShapeRole]) -> int:
        """Return the number of values that the run saw at ``key``: a source range and a role, such
        as ``parameter`` or ``return``.
        """
        return self._counts.get(key, 0)

    @cached_property
    def _counts(self) -> Mapping[tuple[Range, ShapeRole], int]:
        return {(place.range, place.role): place.count for place in self.places}


@dataclass(frozen=True)
class ShapesByTarget:
    """The tensor shapes seen in one target, with an item for each of its sets of example inputs.

    ``note`` is a sentence for the user about values that were not reported.
    """

    runs: tuple[ProbeShapes, ...]
    note: str = ""

    @cached_property
    def by_probe(self) -> Mapping[int, tuple[PlaceShapes, ...]]:
        """Shapes by the number of the probe (the inputs of one run)."""
        return {run.probe_number: run.places for run in self.runs}

    @cached_property
    def places(self) -> _Places:
        """Shapes from the runs with all inputs, merged by source range."""
        return _merge_places(run.places for run in self.runs)

    def merge_with(self, other: ShapesByTarget) -> ShapesByTarget:
        """Return the shapes combined with shapes of a run with another probe (other inputs)."""
        runs = {run.probe_number: run for run in (*self.runs, *other.runs)}
        return ShapesByTarget(
            tuple(runs[number] for number in sorted(runs)), self.note or other.note
        )


def all_shapes(targets: Iterable[ShapesByTarget]) -> tuple[PlaceShapes, ...]:
    """Return the shapes of all targets, merged by source range, in the order of the text."""
    together = _merge_places(target.places.values() for target in targets)
    return tuple(sorted(together.values(), key=_place_order))


def _merge_places(seen: Iterable[Iterable[PlaceShapes]]) -> _Places:
    """Merge the shapes that several runs saw at each source range: the values of all, in the order
    of the runs.
    """
    together: dict[tuple[Range, ShapeRole], PlaceShapes] = {}
    for places in seen:
        for place in places:
            key = place.range, place.role
            known = together.get(key)
            together[key] = _merge_values(known, place) if known is not None else place
    return together


def _merge_values(one: PlaceShapes, other: PlaceShapes) -> PlaceShapes:
    values: dict[ShapeSeen, ShapeSeen] = {}
    for value in (*one.values, *other.values):
        plain = dataclasses.replace(value, graph=0, node="", count=0)
        known = values.get(plain)
        values[plain] = (
            value if known is None else dataclasses.replace(known, count=known.count + value.count)
        )
    left_out = one.left_out + other.left_out
    return dataclasses.replace(one, values=tuple(values.values()), left_out=left_out)


def _place_order(place: PlaceShapes) -> tuple[int, int, int, int]:
    start, end = place.range.start, place.range.end
    return start.line, start.byte, -end.line, -end.byte
