"""Steps of a run: graphs and the breaks between them, in the order of compilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .places import Range

StepKind = Literal["graph", "break"]

MOST_STEPS = 2000
"""Maximum number of steps per run."""


@dataclass(frozen=True)
class TraceStepPlace:
    """A range of the analyzed file, with the number of a graph's operators from it.

    Without column positions, the range covers the whole line.
    """

    range: Range
    ops: int


@dataclass(frozen=True)
class TraceStep:
    """A captured graph, or the break that ended one.

    ``function`` was compiled; ``path`` is empty if it is in the analyzed file. ``resumed``: it is
    the rest of the function after a break. ``places`` of a graph are in the analyzed file, in its
    order. ``seconds`` is the compile time of its frame, without the backend.

    A break has the code and the range of its finding. ``inlined`` counts the functions that the
    tracer was inside. With more than one, the call that led to the break is left to Python; the
    called function is compiled separately and breaks again.
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
        """Number of operators by zero-based line of the analyzed file, in its order."""
        lines: dict[int, int] = {}
        for place in self.places:
            line = place.range.start.line
            lines[line] = lines.get(line, 0) + place.ops
        return lines


@dataclass(frozen=True)
class TraceStepsFound:
    """Event: the steps of a run, sent after its findings; ``left_out`` counts omitted steps."""

    request: int
    target: str
    steps: tuple[TraceStep, ...]
    left_out: int = 0
    probe_number: int = 0
