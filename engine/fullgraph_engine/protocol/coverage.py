"""Which code of the functions of a target was traced."""

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
    """Where the instructions of these functions come from in the text, as ``packed`` numbers: those
    that were traced, and the others. Without columns they begin and end where their line does."""

    packed: str

    @classmethod
    def of(cls, traced: Iterable[Range], others: Iterable[Range]) -> Coverage:
        """``others`` may have places of ``traced`` as well, and any may be told several times."""
        went = set(traced)
        numbers = [
            [
                number
                for place in sorted(places)
                for number in (
                    *(place.start.line, place.start.byte),
                    *(place.end.line, place.end.byte),
                )
            ]
            for places in (went, set(others) - went)
        ]
        return cls(_dumps(numbers, separators=(",", ":")))

    def places(self) -> tuple[Places, Places]:
        """What was packed."""
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

    def reaches(self, line: int) -> bool:
        """Whether some of it is on this line or behind it."""
        return any(one >= line for lines in self._lines for one in lines)

    @property
    def lines(self) -> int:
        """Lines with code."""
        traced, others = self._lines
        return len(traced | others)

    @property
    def lines_traced(self) -> int:
        """Those of which a part was traced."""
        return len(self._lines[0])

    @property
    def untraced(self) -> tuple[int, ...]:
        """Those of which none was, zero-based."""
        traced, others = self._lines
        return tuple(sorted(others - traced))
