"""Steps of the last traces, such as graphs and graph breaks, in order; their lines move with edits
of the text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import AppliedEdit
from fullgraph_engine.protocol.trace_steps import TraceStep, TraceStepPlace


@dataclass(frozen=True)
class TraceStepsByTarget:
    """The trace steps of a target, by the number of the probe (the inputs of one trace)."""

    by_probe: Mapping[int, tuple[TraceStep, ...]]
    left_out: int = 0

    def merge_with(self, other: TraceStepsByTarget) -> TraceStepsByTarget:
        both = {**self.by_probe, **other.by_probe}
        return TraceStepsByTarget(dict(sorted(both.items())), self.left_out + other.left_out)

    def apply_edit(self, edit: AppliedEdit) -> TraceStepsByTarget:
        """Return the steps with ranges moved by an edit; steps that the edit touches lose their
        range.
        """
        by_probe = {
            number: tuple(_shift_step(step, edit) for step in steps)
            for number, steps in self.by_probe.items()
        }
        return TraceStepsByTarget(by_probe, self.left_out)

    def apply_relocation(self, move: Relocation) -> TraceStepsByTarget:
        by_probe = {
            number: tuple(_relocate_step(step, move) for step in steps)
            for number, steps in self.by_probe.items()
        }
        return TraceStepsByTarget(by_probe, self.left_out)


def _shift_step(step: TraceStep, edit: AppliedEdit) -> TraceStep:
    places = tuple(
        TraceStepPlace(moved, place.ops)
        for place in step.places
        if (moved := edit.shift_range(place.range)) is not None
    )
    range_ = edit.shift_range(step.range) if step.range is not None else None
    return dataclasses.replace(step, places=places, range=range_)


def _relocate_step(step: TraceStep, move: Relocation) -> TraceStep:
    places = ((move.move_range(place.range, "instruction"), place.ops) for place in step.places)
    return dataclasses.replace(
        step,
        places=tuple(TraceStepPlace(*place) for place in sorted(places)),
        range=move.move_range(step.range, "place") if step.range is not None else None,
    )
