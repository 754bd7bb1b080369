"""Dtypes, sizes and constants of the analyzed text's values during a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .packing import pack, unpack_items
from .places import Range

ShapeRole = Literal["assigned", "loop", "parameter", "return", "expression"]
"""Role of the place of a value. ``loop``: a name that each iteration of a loop assigns."""

ShapeKind = Literal["tensor", "integer", "several", "constant"]
"""Kind of a value. ``integer`` is symbolic; ``several`` is a sequence of the other kinds."""

MOST_PLACES = 20_000
"""Maximum number of places per run."""
MOST_VALUES = 64
"""Maximum number of distinct values per place: the first ones, and the last."""


@dataclass(frozen=True)
class ShapeSeen:
    """A value, or several values that differ only in their graph nodes.

    ``text`` is probe notation with symbolic sizes. ``concrete`` has the sizes of the run instead;
    it is empty without symbols. The other fields apply only to tensors. ``graph`` counts graphs
    from 1; it is 0 for a value outside graphs. ``graph`` and ``node`` locate the first value.
    """

    kind: ShapeKind
    text: str
    concrete: str = ""
    device: str = ""
    stride: str = ""
    layout: str = ""
    """Layout of a tensor; empty if it is strided."""
    requires_grad: bool = False
    source: str = ""
    """Source of a constant whose value guards check, in the user's words."""
    graph: int = 0
    node: str = ""
    count: int = 1


@dataclass(frozen=True)
class PlaceShapes:
    """The distinct values of one place, in order of appearance.

    ``range`` is an assigned name, the name of a parameter, or a returned or other expression.
    ``function`` is the qualified name of the function around it.
    """

    range: Range
    role: ShapeRole
    values: tuple[ShapeSeen, ...]
    name: str = ""
    function: str = ""
    left_out: int = 0
    """Number of values left out before the last one."""

    @property
    def count(self) -> int:
        return sum(value.count for value in self.values) + self.left_out


@dataclass(frozen=True)
class ShapesFound:
    """Event: the values of a run, sent after its findings; ``note`` says what was left out.

    There can be thousands of places, so they are packed into one text.
    """

    request: int
    target: str
    packed: str
    note: str = ""
    probe_number: int = 0

    @classmethod
    def from_places(
        cls,
        request: int,
        target: str,
        places: Iterable[PlaceShapes],
        note: str = "",
        probe_number: int = 0,
    ) -> ShapesFound:
        return cls(request, target, pack(tuple(places)), note, probe_number)

    def unpack_places(self) -> tuple[PlaceShapes, ...]:
        """Unpack the places; an invalid text gives none."""
        return unpack_items(PlaceShapes, self.packed)
