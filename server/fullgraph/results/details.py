"""Details that runs report for each target in addition to findings: shapes, guards and others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fullgraph.incremental.relocation import Relocation
from fullgraph.results.guards import GuardsByTarget, ProbeGuards
from fullgraph.results.located import Located
from fullgraph.results.seen import SeenByTarget
from fullgraph.results.shapes import ProbeShapes, ShapesByTarget
from fullgraph.results.trace_steps import ProbeSteps, TraceStepsByTarget
from fullgraph_engine.protocol import GuardsFound, ShapesFound, TraceStepsFound, ValuesSeen

DETAIL_EVENTS = (ValuesSeen, ShapesFound, GuardsFound, TraceStepsFound)
DetailEvent = ValuesSeen | ShapesFound | GuardsFound | TraceStepsFound


class _Mergeable(Protocol):
    def merge_with(self: _T, other: _T, /) -> _T:
        """Return the details of a target, combined with its details from a run with other example
        inputs.
        """


_T = TypeVar("_T", bound=_Mergeable)


@dataclass(frozen=True)
class TargetDetails:
    """Details of one target (traced function or class), merged from its runs with all example
    inputs.

    A field is None if the runs did not report it.
    """

    seen: Located[SeenByTarget] | None = None
    shapes: Located[ShapesByTarget] | None = None
    guards: Located[GuardsByTarget] | None = None
    trace_steps: Located[TraceStepsByTarget] | None = None

    @classmethod
    def from_event(cls, event: DetailEvent) -> TargetDetails:
        """Return the details in an event of the engine.

        They are decoded when first read, because there may be thousands.
        """
        if isinstance(event, ValuesSeen):
            return cls(seen=Located(lambda: SeenByTarget(event.unpack_values())))
        number = event.probe_number
        if isinstance(event, ShapesFound):
            return cls(
                shapes=Located(
                    lambda: ShapesByTarget(
                        (ProbeShapes(number, event.unpack_places()),), event.note
                    )
                )
            )
        if isinstance(event, GuardsFound):
            return cls(
                guards=Located(
                    lambda: GuardsByTarget(
                        (ProbeGuards(number, event.unpack_frames(), event.note),)
                    )
                )
            )
        return cls(trace_steps=Located.wrap(TraceStepsByTarget((ProbeSteps(number, event.steps),))))

    def list_events(self, target: str) -> Iterator[DetailEvent]:
        """Yield the engine events that would produce these details of a target again."""
        if self.seen is not None:
            yield ValuesSeen.from_values(0, target, self.seen.current.values)
        if self.shapes is not None:
            shapes = self.shapes.current
            for run in shapes.runs:
                yield ShapesFound.from_places(0, target, run.places, shapes.note, run.probe_number)
        if self.guards is not None:
            for one in self.guards.current.runs:
                yield GuardsFound.from_frames(0, target, one.frames, one.note, one.probe_number)
        if self.trace_steps is not None:
            for steps in self.trace_steps.current.runs:
                yield TraceStepsFound(0, target, steps.steps, probe_number=steps.probe_number)

    def merge_with(self, other: TargetDetails) -> TargetDetails:
        """Return the details of a target, combined with its details from a run with other example
        inputs.
        """
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

    def relocate_later(self, relocations: Sequence[Relocation]) -> TargetDetails:
        """Return the details with source ranges in a later text; details whose range was removed
        are dropped.

        ``relocations`` move the ranges. They are applied when the details are read.
        """
        return self._change_each(lambda details: details.relocate_later(relocations))

    def relocate_now(self, relocation: Relocation, *, guards: bool) -> TargetDetails:
        """Return the details with source ranges in a later text, moved immediately.

        Without ``guards``, the ranges of guards are not checked, because decoding guards takes
        long.

        Raises:
            LineLost: The relocation is strict, and the later text lacks a source range.
        """
        checked = self if guards else dataclasses.replace(self, guards=None)
        moved = checked._change_each(lambda details: details.relocate_now(relocation))
        if guards or self.guards is None:
            return moved
        return dataclasses.replace(moved, guards=self.guards.relocate_later([relocation]))

    def _change_each(self, change: Callable[[Any], Any]) -> TargetDetails:
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed = {name: change(one) for name, one in known.items() if one is not None}
        return dataclasses.replace(self, **changed)


def _merge_optional(one: Located[_T] | None, other: Located[_T] | None) -> Located[_T] | None:
    if one is None or other is None:
        return one or other
    return Located(lambda: one.current.merge_with(other.current))
