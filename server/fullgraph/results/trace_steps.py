"""Steps of the last traces, such as graphs and graph breaks, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fullgraph_engine.protocol.trace_steps import TraceStep


@dataclass(frozen=True)
class ProbeSteps:
    """The steps (graphs, graph breaks and others) of one run; ``probe`` is the number of its
    example inputs.
    """

    probe_number: int
    steps: tuple[TraceStep, ...]


@dataclass(frozen=True)
class TraceStepsByTarget:
    """The trace steps of one target (traced function or class), in the order of the example inputs
    of its runs.
    """

    runs: tuple[ProbeSteps, ...]

    @cached_property
    def by_probe(self) -> Mapping[int, tuple[TraceStep, ...]]:
        """Trace steps by the number of the probe (the inputs of one trace)."""
        return {run.probe_number: run.steps for run in self.runs}

    def merge_with(self, other: TraceStepsByTarget) -> TraceStepsByTarget:
        runs = {run.probe_number: run for run in (*self.runs, *other.runs)}
        return TraceStepsByTarget(tuple(runs[number] for number in sorted(runs)))
