"""What values of the analyzed text were while it was traced: dtypes, sizes, constants."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, Literal

from .places import Position, Range

# Bound now: user code in the engine's processes may replace the functions of `json`.
_loads, _dumps = json.loads, json.dumps

ShapeRole = Literal["assigned", "loop", "parameter", "return", "expression"]
"""What the place of a value is. ``loop``: a name that is assigned in each round of a loop."""

ShapeKind = Literal["tensor", "integer", "several", "constant"]
"""``integer`` is a symbolic one; ``several`` is a sequence that holds values of these kinds."""

MOST_PLACES = 20_000
"""Places that one run tells of."""
MOST_VALUES = 64
"""Distinct values that are told of one place: all but the last are the first that came."""


@dataclass(frozen=True)
class ShapeSeen:
    """A value, or several that are equal in all but their place in a graph.

    ``text`` is probe notation with symbolic sizes. ``concrete`` gives symbols the sizes of the
    run; it is empty where there are none. What follows is known of tensors alone. ``graph`` counts
    from 1, and is 0 for what is in none; ``graph`` and ``node`` are those of the first of them.
    """

    kind: ShapeKind
    text: str
    concrete: str = ""
    device: str = ""
    stride: str = ""
    layout: str = ""
    """Where it is not strided."""
    requires_grad: bool = False
    source: str = ""
    """Where a constant came from that guards hold to its value, in the user's words."""
    graph: int = 0
    node: str = ""
    count: int = 1


@dataclass(frozen=True)
class PlaceShapes:
    """The distinct values that one place had, in the order in which they came.

    ``range`` is an assigned name, the name of a parameter, a returned or any other expression.
    ``function`` is the qualified name of the function that it is in.
    """

    range: Range
    role: ShapeRole
    values: tuple[ShapeSeen, ...]
    name: str = ""
    function: str = ""
    left_out: int = 0
    """Values between the last two that are told."""

    @property
    def count(self) -> int:
        return sum(value.count for value in self.values) + self.left_out


@dataclass(frozen=True)
class ShapesFound:
    """Once per run of a target, after its findings. ``note`` says what was left out.

    There can be thousands of places with few distinct values: they travel as text, in which a
    place names its values by their numbers.
    """

    request: int
    target: str
    packed: str
    note: str = ""
    probe_number: int = 0

    @classmethod
    def of(
        cls,
        request: int,
        target: str,
        places: Iterable[PlaceShapes],
        note: str = "",
        probe_number: int = 0,
    ) -> ShapesFound:
        numbers: dict[tuple[Any, ...], int] = {}
        rows = []
        for place in places:
            start, end = place.range.start, place.range.end
            values = []
            for value in place.values:
                *told, graph, node, count = astuple(value)
                number = numbers.setdefault(tuple(told), len(numbers))
                values.append([number, graph, node, count])
            where = [start.line, start.byte, end.line, end.byte]
            rows.append([where, place.role, place.name, place.function, place.left_out, values])
        packed = _dumps([list(numbers), rows], separators=(",", ":"))
        return cls(request, target, packed, note, probe_number)

    def places(self) -> Iterator[PlaceShapes]:
        """What was packed; nothing of what is not of that form."""
        try:
            told, rows = _loads(self.packed)
            for where, role, name, function, left_out, values in rows:
                first, start, last, end = map(int, where)
                if role not in _ROLES:
                    continue
                seen = tuple(ShapeSeen(*told[number], *rest) for number, *rest in values)
                range_ = Range(Position(first, start), Position(last, end))
                yield PlaceShapes(range_, role, seen, name, function, int(left_out))
        except (ValueError, TypeError, IndexError):
            return


_ROLES = frozenset(typing.get_args(ShapeRole))
