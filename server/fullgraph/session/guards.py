"""Guards that the last runs reported, with lines that move with edits of the text.

Events are unpacked only on request, because there may be thousands of guards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from fullgraph.domain.codes import Severity, documentation_url
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guards import guard_sentences, kind_slug
from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import AppliedEdit
from fullgraph_engine.protocol import Finding, Position, Range, TargetReport
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame, GuardsFound
from fullgraph_engine.protocol.packing import pack

_MOST_LINES = 12
"""Maximum number of conditions listed in one diagnostic."""


class GuardsByTarget:
    """The guards of one target, from one run for each probe (the inputs of one trace)."""

    def __init__(
        self,
        told: tuple[GuardsFound, ...],
        moves: tuple[AppliedEdit | Relocation, ...] = (),
        by_probe: Mapping[int, tuple[GuardedFrame, ...]] | None = None,
    ) -> None:
        self._told, self._moves = told, moves
        if by_probe is not None:
            self.by_probe = by_probe

    def merge_with(self, other: GuardsByTarget) -> GuardsByTarget:
        """Return these guards together with the guards of a run with another probe (other
        inputs).
        """
        both = sorted((*self._told, *other._told), key=lambda event: event.probe_number)
        return GuardsByTarget(tuple(both), self._moves)

    def apply_edit(self, edit: AppliedEdit) -> GuardsByTarget:
        """Return the guards with lines moved by an edit; guards on edited lines lose their line."""
        return self._add_move(edit)

    def apply_relocation(self, move: Relocation) -> GuardsByTarget:
        moved = self._add_move(move)
        if move.is_formatted:
            _ = moved.by_probe  # raises an error if a line does not exist there
        return moved

    def _add_move(self, move: AppliedEdit | Relocation) -> GuardsByTarget:
        known = self.__dict__.get("by_probe")
        moved = _moved_by_probe(known, move) if known is not None else None
        return GuardsByTarget(self._told, (*self._moves, move), moved)

    @cached_property
    def by_probe(self) -> Mapping[int, tuple[GuardedFrame, ...]]:
        """Compiled frames with their guards, by the number of the probe (inputs) that the run
        used.
        """
        by_probe = {event.probe_number: event.unpack_frames() for event in self._told}
        for move in self._moves:
            by_probe = _moved_by_probe(by_probe, move)
        return by_probe

    @property
    def frames(self) -> tuple[GuardedFrame, ...]:
        return tuple(frame for frames in self.by_probe.values() for frame in frames)

    @property
    def told(self) -> tuple[GuardsFound, ...]:
        """Events with the guards of all runs, with lines in the current text."""
        if not self._moves:
            return self._told
        return tuple(
            dataclasses.replace(event, packed=pack(self.by_probe[event.probe_number]))
            for event in self._told
        )

    @property
    def note(self) -> str:
        """Sentence for the user about guards that were not reported because of a limit; empty if
        none.
        """
        return next((event.note for event in self._told if event.note), "")


def _moved_by_probe(
    by_probe: Mapping[int, tuple[GuardedFrame, ...]], move: AppliedEdit | Relocation
) -> dict[int, tuple[GuardedFrame, ...]]:
    return {
        number: tuple(_move_frame(frame, move) for frame in frames)
        for number, frames in by_probe.items()
    }


def _move_frame(frame: GuardedFrame, move: AppliedEdit | Relocation) -> GuardedFrame:
    if isinstance(move, Relocation):
        causes = tuple(cause and move.move_range(cause, "place") for cause in frame.causes)
    else:
        causes = tuple(cause and move.shift_range(cause) for cause in frame.causes)
    first, last = frame.first_line, frame.last
    if frame.path:
        pass
    elif isinstance(move, Relocation):
        first, last = move.move_line(first), move.move_range(last, "instruction")
    else:
        moved = move.shift_line(first)
        first = first if moved is None else moved
        last = move.shift_range(last) or _extend_range(last, move)
    return dataclasses.replace(frame, causes=causes, first_line=first, last=last)


def _extend_range(range_: Range, edit: AppliedEdit) -> Range:
    """Return the range after an edit; unlike ranges of findings, it grows or shrinks if the edit is
    inside it.
    """
    end = range_.end
    return Range(range_.start, Position(end.line + edit.lines, end.byte))


def guard_findings(
    targets: Iterable[str],
    guards: Mapping[str, GuardsByTarget],
    reports: Iterable[TargetReport],
) -> Iterator[FileFinding]:
    """Yield hints for all guards of some targets: one per guard kind and line.

    Guards without a line are placed at the name of their target.
    """
    names = {report.name: report.range for report in reports}
    for target in targets:
        groups: dict[tuple[Range, str], list[FoundGuard]] = {}
        for frame in guards[target].frames if target in guards else ():
            for guard in frame.guards:
                cause = frame.causes[guard.cause] if guard.cause >= 0 else None
                range_ = cause or names.get(target)
                if range_ is not None:
                    groups.setdefault((range_, guard.kind), []).append(guard)
        for (range_, kind), group in groups.items():
            yield _guard_finding(target, range_, kind, group)


def _guard_finding(target: str, range_: Range, kind: str, group: list[FoundGuard]) -> FileFinding:
    conditions = list(dict.fromkeys(line for guard in group for line in guard_sentences(guard)))
    lines = conditions[:_MOST_LINES]
    if len(conditions) > len(lines):
        lines.append(f"… and {len(conditions) - len(lines)} more")
    code = f"guard/{kind_slug(kind)}"
    head = f"{kind}: {lines[0]}" if len(lines) == 1 else f"{kind}, {len(group)} guards"
    finding = Finding(
        code=code,
        message=head,
        range=range_,
        target=target,
        explanation="" if len(lines) == 1 else "\n".join(lines),
        count=len(group),
    )
    return FileFinding(finding, Severity.HINT, (target,), documentation_url(code))
