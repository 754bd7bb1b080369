"""Details that runs report for each target in addition to findings: shapes, guards and others, with
ranges that move with edits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import AppliedEdit
from fullgraph.session.guards import GuardsByTarget
from fullgraph.session.seen import SeenByTarget
from fullgraph.session.shapes import ShapesByTarget
from fullgraph.session.trace_steps import TraceStepsByTarget
from fullgraph_engine.protocol import GuardsFound, ShapesFound, TraceStepsFound, ValuesSeen

DETAIL_EVENTS = (ValuesSeen, ShapesFound, GuardsFound, TraceStepsFound)


class _Mergeable(Protocol):
    def merge_with(self: _T, other: _T, /) -> _T:
        """Return the details combined with details of a run with another probe (other inputs)."""


_T = TypeVar("_T", bound=_Mergeable)


@dataclass(frozen=True)
class TargetDetails:
    """Details of one target from its runs with all probes (inputs); a field is None if the runs did
    not report it.
    """

    seen: SeenByTarget | None = None
    shapes: ShapesByTarget | None = None
    guards: GuardsByTarget | None = None
    trace_steps: TraceStepsByTarget | None = None

    @classmethod
    def from_event(
        cls, event: ValuesSeen | ShapesFound | GuardsFound | TraceStepsFound
    ) -> TargetDetails:
        if isinstance(event, ValuesSeen):
            return cls(seen=SeenByTarget.from_values(event.unpack_values()))
        if isinstance(event, ShapesFound):
            return cls(
                shapes=ShapesByTarget.from_places(
                    event.unpack_places(), event.note, event.probe_number
                )
            )
        if isinstance(event, GuardsFound):
            return cls(guards=GuardsByTarget((event,)))
        steps = {event.probe_number: event.steps}
        return cls(trace_steps=TraceStepsByTarget(steps, event.left_out))

    def merge_with(self, other: TargetDetails) -> TargetDetails:
        """Return the details combined with details of a run with another probe (other inputs)."""
        return TargetDetails(
            _merge_optional(self.seen, other.seen),
            _merge_optional(self.shapes, other.shapes),
            _merge_optional(self.guards, other.guards),
            _merge_optional(self.trace_steps, other.trace_steps),
        )

    def fill_from(self, before: TargetDetails) -> TargetDetails:
        """Return the details with each missing one taken from ``before``, the details of an earlier
        run.
        """
        return TargetDetails(
            self.seen or before.seen,
            self.shapes or before.shapes,
            self.guards or before.guards,
            self.trace_steps or before.trace_steps,
        )

    def apply_edit(self, edit: AppliedEdit) -> TargetDetails:
        """Return the details with their ranges moved by an edit."""
        return TargetDetails(
            self.seen and self.seen.apply_edit(edit),
            self.shapes and self.shapes.apply_edit(edit),
            self.guards and self.guards.apply_edit(edit),
            self.trace_steps and self.trace_steps.apply_edit(edit),
        )

    def apply_relocation(self, move: Relocation) -> TargetDetails:
        """Return the details with their ranges moved to another text.

        Raises:
            LineLost: A range does not exist in the other text.
        """
        return TargetDetails(
            self.seen and self.seen.apply_relocation(move),
            self.shapes and self.shapes.apply_relocation(move),
            self.guards and self.guards.apply_relocation(move),
            self.trace_steps and self.trace_steps.apply_relocation(move),
        )


def _merge_optional(one: _T | None, other: _T | None) -> _T | None:
    return one.merge_with(other) if one is not None and other is not None else one or other
