"""What values of the analyzed text were while it was traced: dtypes, sizes, constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .packing import items_of, packed
from .places import Range

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

    There can be thousands of places, so they travel as text.
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
        return cls(request, target, packed(tuple(places)), note, probe_number)

    def places(self) -> tuple[PlaceShapes, ...]:
        """What was packed; nothing if it is not of this form."""
        return items_of(PlaceShapes, self.packed)
