"""The guards of a run (conditions under which compiled code is valid), by frame and causing
line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..protocol import Range
from ..protocol.guards import FoundGuard, GuardedFrame
from ..protocol.sources import without_addresses
from ..torch_internals.frames import original_name
from ..tracing.recording import Guard, GuardedCode, Recording, Stack, TracedFrame
from .places import SourceText


def guarded_frames(recording: Recording, source: SourceText) -> tuple[GuardedFrame, ...]:
    """Return the compiled functions of a trace with their guards, in the order of compilation;
    functions without guards are left out."""
    frames = {frame.id: frame for frame in recording.frames}
    by_frame: dict[int, list[Guard]] = defaultdict(list)
    for guard in recording.guards:
        by_frame[guard.frame].append(guard)
    causes = _Causes(source)
    return tuple(
        _guarded_frame(
            frames[code.frame],
            code,
            recording.entries.get(code.frame, -1),
            by_frame[code.frame],
            causes,
        )
        for code in recording.guarded
        if code.frame in frames
    )


def omission_note(recording: Recording) -> str:
    """Return a sentence about guards missing from the report because there were too many; empty if
    it is complete."""
    shown, all_ = len(recording.guards), recording.guard_count
    return f"Only the first {shown:,} of {all_:,} guards are shown." if shown < all_ else ""


class _Causes:
    """A cache of the source ranges that caused guards; all guards that a line caused share a
    stack."""

    def __init__(self, source: SourceText) -> None:
        self.path = source.path
        self._source = source
        self._known: dict[int, tuple[Range | None, bool]] = {}

    def find_cause(self, stack: Stack) -> tuple[Range | None, bool]:
        """Return the innermost source range of a stack in the file, and whether frames of libraries
        are further inside."""
        found = self._known.get(id(stack))
        if found is None:
            found = self._known[id(stack)] = self._find_range(stack)
        return found

    def _find_range(self, stack: Stack) -> tuple[Range | None, bool]:
        for below, frame in enumerate(reversed(stack)):
            if frame.path == self.path:
                return self._source.range_of(frame), below > 0
        return None, bool(stack)


def _guarded_frame(
    frame: TracedFrame,
    code: GuardedCode,
    entered: int,
    guards: Iterable[Guard],
    causes: _Causes,
) -> GuardedFrame:
    ranges: dict[Range, int] = {}
    found = []
    for guard in guards:
        range_, deep = causes.find_cause(guard.stack)
        cause = -1 if range_ is None else ranges.setdefault(range_, len(ranges))
        expressions = tuple(map(without_addresses, guard.expressions))
        found.append(FoundGuard(guard.kind, guard.source, expressions, guard.type, cause, deep))
    return GuardedFrame(
        original_name(frame.function),
        "" if frame.path == causes.path else frame.path,
        frame.line,
        code.last,
        frame.compile_id,
        entered,
        tuple(ranges),
        tuple(found),
    )
