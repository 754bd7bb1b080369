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
        line if line.line < edit.start.line else TraceStepLine(line.line + edit.lines, line.ops)
        for line in step.lines
        if not edit.start.line <= line.line <= _last(edit)
    )
    first = step.first_line
    if not step.path and first > edit.end.line:
        first += edit.lines
    range_ = edit.moved(step.range) if step.range is not None else None
    return dataclasses.replace(step, lines=lines, first_line=first, range=range_)


def _last(edit: Edit) -> int:
    """Whole lines that come or go leave the line behind them as it is."""
    whole = edit.start.byte == edit.end.byte == edit.new_end.byte == 0
    return edit.end.line - 1 if whole else edit.end.line
