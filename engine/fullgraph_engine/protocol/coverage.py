"""Trace coverage: which instructions of the traced functions Dynamo reached."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from .places import Position, Range

_loads, _dumps = json.loads, json.dumps

Places = tuple[Range, ...]


@dataclass(frozen=True)
class Coverage:
    """Source ranges of the instructions of a target's functions, traced or not, encoded as the
    numbers in ``packed``.

    The target is a function or module class that Dynamo traced. Without column positions, a range
    covers a whole line.
    """

    packed: str

    @classmethod
    def from_ranges(cls, traced: Iterable[Range], others: Iterable[Range]) -> Coverage:
        """Return the encoded form of traced ranges and of ``others``, which Dynamo did not trace.

        A range in both counts as traced; duplicates are dropped.
        """
        traced_places = set(traced)
        numbers = [
            [
                number
                for place in sorted(places)
                for number in (
                    *(place.start.line, place.start.byte),
                    *(place.end.line, place.end.byte),
                )
            ]
            for places in (traced_places, set(others) - traced_places)
        ]
        return cls(_dumps(numbers, separators=(",", ":")))

    def unpack_ranges(self) -> tuple[Places, Places]:
        """Return two tuples of source ranges: traced instructions, and untraced instructions."""
        traced, others = (
            tuple(
                Range(Position(*numbers[at : at + 2]), Position(*numbers[at + 2 : at + 4]))
                for at in range(0, len(numbers), 4)
            )
            for numbers in _loads(self.packed)
        )
        return traced, others

    @cached_property
    def _lines(self) -> tuple[frozenset[int], frozenset[int]]:
        traced, others = (frozenset(numbers[::4]) for numbers in _loads(self.packed))
        return traced, others

    def extends_to(self, line: int) -> bool:
        """Whether any of the functions has code on this zero-based line or on a later one."""
        return any(code_line >= line for lines in self._lines for code_line in lines)

    @property
    def lines(self) -> int:
        """Number of lines with code in the functions that Dynamo traced at least in part."""
        traced, others = self._lines
        return len(traced | others)

    @property
    def lines_traced(self) -> int:
        """Number of lines with code that Dynamo traced."""
        return len(self._lines[0])

    @property
    def traced(self) -> frozenset[int]:
        """Zero-based lines with code that Dynamo traced."""
        return self._lines[0]

    @property
    def untraced(self) -> tuple[int, ...]:
        """Zero-based lines with code that Dynamo did not trace, in functions that it traced at
        least in part."""
        traced, others = self._lines
        return tuple(sorted(others - traced))
