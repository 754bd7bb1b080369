"""Dtypes, sizes and constants that a trace saw at source ranges of the analyzed text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .packing import pack, unpack_items
from .places import Range

ShapeRole = Literal["assigned", "loop", "parameter", "return", "expression"]
"""Role of the source range at which a value was seen. ``loop``: a name that each iteration of a
loop assigns."""

ShapeKind = Literal["tensor", "integer", "several", "constant"]
"""Kind of a value seen in a trace. ``integer`` is a symbolic integer; ``several`` is a tuple or
list of values."""

MOST_PLACES = 20_000
"""Maximum number of source ranges per trace whose values are recorded."""
MOST_VALUES = 64
"""Maximum number of distinct values recorded per source range: the first ones, and the last."""


@dataclass(frozen=True)
class ShapeSeen:
    """A value that a trace saw at a source range; values that differ only in their graph nodes are
    one item.

    ``text`` is the value as in a probe comment, with symbolic sizes (``f32[s0, 16]``). ``concrete``
    has the sizes of the example inputs instead; it is empty without symbols. The fields from
    ``device`` to ``requires_grad`` apply only to tensors. ``count`` is the number of values in the
    item. ``graph`` and ``node`` locate the first of them; ``graph`` is the number of the graph from
    1, or 0 for a value outside graphs.
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
    """Expression of a constant whose value is checked by guards, in the user's words; otherwise
    empty."""
    graph: int = 0
    node: str = ""
    count: int = 1


@dataclass(frozen=True)
class PlaceShapes:
    """The distinct values that a trace saw at one source range, in order of appearance.

    ``range`` is an assigned name, the name of a parameter, or a returned or other expression.
    ``function`` is the qualified name of the function that contains it.
    """

    range: Range
    role: ShapeRole
    values: tuple[ShapeSeen, ...]
    name: str = ""
    function: str = ""
    left_out: int = 0
    """Number of distinct values left out between the first ones and the last one."""

    @property
    def count(self) -> int:
        return sum(value.count for value in self.values) + self.left_out


@dataclass(frozen=True)
class ShapesFound:
    """Event: the values that a trace saw, sent after its findings; ``note`` says what was left out.

    There can be thousands of source ranges, so they are packed into one text.
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
        """Decode the source ranges with their values from ``packed``; empty for an invalid text."""
        return unpack_items(PlaceShapes, self.packed)
