"""Move findings with the text that they refer to.

Between an edit and the results of the next trace the old findings stay visible. Each edit shifts
the findings after it and removes the findings that it touches.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fullgraph_engine.protocol import (
    Coverage,
    Finding,
    Fix,
    Frame,
    Position,
    Range,
    Region,
    Related,
    TargetReport,
    place_words,
)


@dataclass(frozen=True)
class AppliedEdit:
    """One edit: the text from ``start`` to ``end`` was replaced by text that ends at
    ``new_end``."""

    start: Position
    end: Position
    new_end: Position

    @property
    def lines(self) -> int:
        return self.new_end.line - self.end.line

    @property
    def whole(self) -> bool:
        """Whether only whole lines were inserted or removed."""
        return self.start.byte == self.end.byte == self.new_end.byte == 0

    def shift_range(self, range_: Range) -> Range | None:
        """Return the range after the edit; None if the edit touches it."""
        if self.end <= range_.start:
            return Range(self._shift_position(range_.start), self._shift_position(range_.end))
        return range_ if self.start >= range_.end else None

    def shift_line(self, line: int) -> int | None:
        """Return the number of a line after the edit; None if the edit touches it."""
        if line > self.end.line or (self.whole and line == self.end.line):
            return line + self.lines
        return line if line < self.start.line else None

    def _shift_position(self, position: Position) -> Position:
        if position.line > self.end.line:
            return Position(position.line + self.lines, position.byte)
        return Position(self.new_end.line, self.new_end.byte + position.byte - self.end.byte)


def move_finding(finding: Finding, edit: AppliedEdit, path: str) -> Finding | None:
    """Return the finding with its ranges moved by an edit of the file ``path``; None if the
    finding's own range was edited.
    """
    range_ = edit.shift_range(finding.range)
    if range_ is None:
        return None
    if (
        range_ == finding.range
        and _last_line(finding) <= edit.start.line
        and not (finding.fixes or finding.related)
    ):
        return finding
    return dataclasses.replace(
        finding,
        range=range_,
        related=tuple(
            place for item in finding.related if (place := _move_related(item, edit, path))
        ),
        fixes=tuple(moved for fix in finding.fixes if (moved := _move_fix(fix, edit))),
        stack=tuple(_move_frame(frame, edit, path) for frame in finding.stack),
        # Update the line in the finding's identity, so that the next trace recognizes the finding.
        identity=finding.identity.replace(place_words(finding.range), place_words(range_)),
    )


def move_report(report: TargetReport, edit: AppliedEdit, path: str) -> TargetReport | None:
    """Return a target's report with its ranges moved by an edit of the file ``path``; None if the
    target's name was edited.
    """
    range_ = edit.shift_range(report.range)
    if range_ is None:
        return None
    coverage = _move_coverage(report.coverage, edit)
    region = _move_region(report.region, edit, path)
    if range_ == report.range and coverage is report.coverage and region is report.region:
        return report
    return dataclasses.replace(report, range=range_, coverage=coverage, region=region)


def _move_region(region: Region | None, edit: AppliedEdit, path: str) -> Region | None:
    """Return the region (code compiled as a whole) with the range of its ``torch.compile`` moved; a
    range that was edited stays unchanged.
    """
    if region is None or region.site.path != path:
        return region
    moved = edit.shift_range(region.site.range)
    if moved is None or moved == region.site.range:
        return region
    return dataclasses.replace(region, site=dataclasses.replace(region.site, range=moved))


def _move_coverage(coverage: Coverage | None, edit: AppliedEdit) -> Coverage | None:
    """Return the traced and untraced ranges moved by the edit, without ranges that the edit
    touched.
    """
    if coverage is None or not coverage.extends_to(edit.start.line):
        return coverage
    return Coverage.from_ranges(
        *(
            [moved for place in places if (moved := edit.shift_range(place)) is not None]
            for places in coverage.unpack_ranges()
        )
    )


def _move_related(related: Related, edit: AppliedEdit, path: str) -> Related | None:
    if related.path != path:
        return related
    range_ = edit.shift_range(related.range)
    return None if range_ is None else dataclasses.replace(related, range=range_)


def _move_fix(fix: Fix, edit: AppliedEdit) -> Fix | None:
    edits = []
    for change in fix.edits:
        range_ = edit.shift_range(change.range)
        if range_ is None:
            return None
        edits.append(dataclasses.replace(change, range=range_))
    return dataclasses.replace(fix, edits=tuple(edits))


def _move_frame(frame: Frame, edit: AppliedEdit, path: str) -> Frame:
    # A stack frame is only context, so a frame on an edited line keeps its line.
    line = edit.shift_line(frame.line) if frame.path == path else None
    if line is None:
        return frame
    end_line = edit.shift_line(frame.end_line) if frame.end_line >= 0 else frame.end_line
    return dataclasses.replace(frame, line=line, end_line=line if end_line is None else end_line)


def _last_line(finding: Finding) -> int:
    return max((finding.range.end.line, *(frame.line for frame in finding.stack)))
