"""The steps of a trace, in order: its graphs, and the graph break that ended each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ..protocol import Position, Range
from ..protocol.trace_steps import TraceStep, TraceStepPlace
from ..tracing.recording import Break, Graph, Recording, TracedFrame
from . import breaks
from .places import SourceText


def steps_of_recording(
    recording: Recording, source: SourceText, fallback: Range
) -> tuple[TraceStep, ...]:
    """Return the graphs and graph breaks of a trace in the order in which Dynamo compiled their
    frames.

    ``fallback`` is the source range for breaks outside the file.
    """
    graphs: dict[int, list[Graph]] = defaultdict(list)
    for graph in recording.graphs:
        graphs[graph.frame].append(graph)
    # A frame has at most one break, its last: Dynamo restarted its analysis after the earlier ones.
    broke = {record.frame: record for record in recording.breaks}
    steps: list[TraceStep] = []
    for frame in sorted(recording.frames, key=lambda frame: frame.id):
        steps += (_graph_step(graph, frame, source) for graph in graphs[frame.id])
        if (record := broke.get(frame.id)) is not None:
            steps.append(_break_step(record, frame, source, fallback))
    return tuple(steps)


def _graph_step(graph: Graph, frame: TracedFrame, source: SourceText) -> TraceStep:
    counted = Counter(_operator_places(graph, source.path))
    return TraceStep(
        kind="graph",
        function=source.function(frame.path, frame.function, frame.line),
        path="" if frame.path == source.path else frame.path,
        resumed=frame.resumed,
        ops=len(graph.ops),
        places=tuple(TraceStepPlace(place, ops) for place, ops in sorted(counted.items())),
        seconds=round(frame.seconds, 6),
    )


def _operator_places(graph: Graph, path: str) -> Iterator[Range]:
    """Yield, for each operator of a graph, the innermost source range in the file ``path`` that
    created it, if any."""
    for op in graph.ops:
        frame = next((frame for frame in reversed(op.stack) if frame.path == path), None)
        if frame is not None and frame.end_byte >= 0:
            start, end = Position(frame.line, frame.byte), Position(frame.end_line, frame.end_byte)
            yield Range(start, end)
        elif frame is not None:
            yield Range(Position(frame.line, 0), Position(frame.line, 0))


def _break_step(
    record: Break, frame: TracedFrame, source: SourceText, fallback: Range
) -> TraceStep:
    finding = breaks.break_finding(record, source, fallback)
    return TraceStep(
        kind="break",
        function=source.function(frame.path, frame.function, frame.line),
        path="" if frame.path == source.path else frame.path,
        resumed=frame.resumed,
        code=finding.code,
        range=finding.range,
        outcome=record.outcome,
        inlined=record.inlined,
    )
