"""What runs tell of each target besides findings and reports, moved with the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import Edit
from fullgraph.session.guards import GuardsByTarget
from fullgraph.session.seen import SeenByTarget
from fullgraph.session.shapes import ShapesByTarget
from fullgraph.session.trace_steps import TraceStepsByTarget
from fullgraph_engine.protocol import GuardsFound, ShapesFound, TraceStepsFound, ValuesSeen

TOLD = (ValuesSeen, ShapesFound, GuardsFound, TraceStepsFound)


class _Telling(Protocol):
    def joined(self: _T, other: _T, /) -> _T:
        """With that of another probe."""


_T = TypeVar("_T", bound=_Telling)


@dataclass(frozen=True)
class Told:
    """Of one target, by the runs with its probes; None is what they did not tell."""

    seen: SeenByTarget | None = None
    shapes: ShapesByTarget | None = None
    guards: GuardsByTarget | None = None
    trace_steps: TraceStepsByTarget | None = None

    @classmethod
    def of(cls, event: ValuesSeen | ShapesFound | GuardsFound | TraceStepsFound) -> Told:
        if isinstance(event, ValuesSeen):
            return cls(seen=SeenByTarget.of(event.unpack_values()))
        if isinstance(event, ShapesFound):
            return cls(
                shapes=ShapesByTarget.of(event.unpack_places(), event.note, event.probe_number)
            )
        if isinstance(event, GuardsFound):
            return cls(guards=GuardsByTarget((event,)))
        steps = {event.probe_number: event.steps}
        return cls(trace_steps=TraceStepsByTarget(steps, event.left_out))

    def joined(self, other: Told) -> Told:
        """With what the run with another probe told."""
        return Told(
            _joined(self.seen, other.seen),
            _joined(self.shapes, other.shapes),
            _joined(self.guards, other.guards),
            _joined(self.trace_steps, other.trace_steps),
        )

    def over(self, before: Told) -> Told:
        """With what was told before in place of what is not told now."""
        return Told(
            self.seen or before.seen,
            self.shapes or before.shapes,
            self.guards or before.guards,
            self.trace_steps or before.trace_steps,
        )

    def moved(self, edit: Edit) -> Told:
        """After an edit."""
        return Told(
            self.seen and self.seen.moved(edit),
            self.shapes and self.shapes.moved(edit),
            self.guards and self.guards.moved(edit),
            self.trace_steps and self.trace_steps.moved(edit),
        )

    def relocated(self, move: Relocation) -> Told:
        """In another text.

        Raises:
            LineLost: some of it has no place there.
        """
        return Told(
            self.seen and self.seen.relocated(move),
            self.shapes and self.shapes.relocated(move),
            self.guards and self.guards.relocated(move),
            self.trace_steps and self.trace_steps.relocated(move),
        )


def _joined(one: _T | None, other: _T | None) -> _T | None:
    return one.joined(other) if one is not None and other is not None else one or other
