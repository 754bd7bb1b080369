"""All findings in the recording of one run of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...findings import breaks, dimensions, failures, operators, recompiles
from ...findings.places import SourceText
from ...protocol import Finding, Position, Range
from ...tracing.recording import Recording

_NOWHERE = Range(Position(0, 0), Position(0, 0))


def findings_of(recording: Recording, source: SourceText) -> Iterator[Finding]:
    """Yield the findings of a recorded run, as an analysis of the file reports them, but without
    counts.
    """
    for record in recording.breaks:
        yield breaks.break_finding(record, source, _NOWHERE)
    for skip in recording.skips:
        # Remove the frame of the module, because Dynamo did not skip that frame.
        callers = tuple(frame for frame in skip.callers if frame.function != "<module>")
        finding = breaks.skip_finding(replace(skip, callers=callers), source)
        if finding is not None:
            yield finding
    for op in recording.custom_ops:
        if not op.compliant:
            yield operators.operator_finding(op, source, _NOWHERE)
    yield from recompiles.recompile_findings(recording, source, _NOWHERE)
    for event in recording.specializations:
        if dimensions.is_size(event, recording):
            yield dimensions.specialization_finding(event, recording, source, _NOWHERE, False)
    if recording.failure is not None:
        yield failures.failure_finding(recording.failure, source, _NOWHERE, fake=False, chosen=0)
