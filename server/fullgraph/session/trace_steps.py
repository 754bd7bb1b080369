"""The steps of the last runs: graphs and breaks in their order, moved with the text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from fullgraph.session.edit_tracking import Edit
from fullgraph_engine.protocol.trace_steps import TraceStep, TraceStepLine


@dataclass(frozen=True)
class TraceStepsByTarget:
    """The steps for each probe of a target, by its number."""

    by_probe: Mapping[int, tuple[TraceStep, ...]]
    left_out: int = 0

    def joined(self, other: TraceStepsByTarget) -> TraceStepsByTarget:
        by_probe = {**self.by_probe, **other.by_probe}
        return TraceStepsByTarget(by_probe, self.left_out + other.left_out)

    def moved(self, edit: Edit) -> TraceStepsByTarget:
        """After an edit: lines that it touched are not known any more."""
        by_probe = {
            number: tuple(_moved(step, edit) for step in steps)
            for number, steps in self.by_probe.items()
        }
        return TraceStepsByTarget(by_probe, self.left_out)


def _moved(step: TraceStep, edit: Edit) -> TraceStep:
    lines = tuple(
        TraceStepLine(moved, line.ops)
        for line in step.lines
        if (moved := edit.moved_line(line.line)) is not None
    )
    moved_first = edit.moved_line(step.first_line) if not step.path else None
    first = step.first_line if moved_first is None else moved_first
    range_ = edit.moved(step.range) if step.range is not None else None
    return dataclasses.replace(step, lines=lines, first_line=first, range=range_)
