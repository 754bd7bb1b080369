"""The steps of a run: its graphs and the breaks between them, in the order of compilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .places import Range

StepKind = Literal["graph", "break"]

MOST_STEPS = 2000
"""Steps that one run tells of."""


@dataclass(frozen=True)
class TraceStepPlace:
    """A range of the analyzed file, and how many operators of a graph come from it. Without columns
    it begins and ends where its line does."""

    range: Range
    ops: int


@dataclass(frozen=True)
class TraceStep:
    """A graph that was captured, or the break that ended one.

    ``function`` is the one that was compiled; it is in another file where ``path`` is not empty.
    ``resumed``: it is what was left of it behind a
    break. Of a graph, ``places`` are those in the analyzed file, in its order; ``seconds`` is how
    long the compilation of its frame took, the backend not included.

    A break has the code and the place of its finding. ``inlined`` says how many functions the
    tracer was in: with more than one, the call that led to the break is left to Python, and what
    is called is compiled by itself, and breaks again.
    """

    kind: StepKind
    function: str
    path: str = ""
    resumed: bool = False
    ops: int = 0
    places: tuple[TraceStepPlace, ...] = ()
    seconds: float = 0.0
    code: str = ""
    range: Range | None = None
    outcome: str = ""
    inlined: int = 1

    @property
    def ops_by_line(self) -> dict[int, int]:
        """Operators that come from the analyzed file, by zero-based line, in its order."""
        lines: dict[int, int] = {}
        for place in self.places:
            line = place.range.start.line
            lines[line] = lines.get(line, 0) + place.ops
        return lines


@dataclass(frozen=True)
class TraceStepsFound:
    """Once per run of a target, after its findings. ``left_out`` steps were too many."""

    request: int
    target: str
    steps: tuple[TraceStep, ...]
    left_out: int = 0
    probe_number: int = 0
