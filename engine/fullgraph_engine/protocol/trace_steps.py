"""Steps of a trace: captured graphs and the breaks between them, in the order of compilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .places import Range

StepKind = Literal["graph", "break"]

MOST_STEPS = 2000
"""Maximum number of trace steps (graphs and breaks) reported per run."""


@dataclass(frozen=True)
class TraceStepPlace:
    """A source range of the analyzed file, and the number of a graph's operators that come from it.

    Without column positions, the range covers the whole line.
    """

    range: Range
    ops: int


@dataclass(frozen=True)
class TraceStep:
    """A captured graph, or the graph break that ended one.

    ``function`` is the compiled function; ``path`` is empty if it is in the analyzed file.
    ``resumed``: the step belongs to the remainder of the function after a break. ``places`` are the
    source ranges of a graph's operators in the analyzed file, in order of position. ``seconds`` is
    the compile time of the frame, without the backend.

    A break has the ``code`` and ``range`` of its finding. ``inlined`` is the number of nested
    functions that Dynamo was tracing at the break. If it is more than one, the call that led to the
    break runs in Python without Dynamo; the called function is compiled separately and breaks
    again.
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
        """Number of operators by zero-based line of the analyzed file, in order of the lines."""
        lines: dict[int, int] = {}
        for place in self.places:
            line = place.range.start.line
            lines[line] = lines.get(line, 0) + place.ops
        return lines


@dataclass(frozen=True)
class TraceStepsFound:
    """Event: the trace steps (graphs and graph breaks) of a traced target, sent after its findings.

    ``left_out`` is the number of omitted steps.
    """

    request: int
    target: str
    steps: tuple[TraceStep, ...]
    left_out: int = 0
    probe_number: int = 0
