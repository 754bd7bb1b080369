"""Move verified fixes to a later text in which only other code has changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import apply_edits
from fullgraph.fixes.verification import Fix
from fullgraph_engine.protocol import Finding, Position, Range


@dataclass(frozen=True)
class ChangedLines:
    """The lines between the first and the last difference of two texts.

    ``first`` is the number of equal lines at the beginning of both texts, ``end`` the line of the
    earlier text from which on all lines are equal again, ``shift`` the number of lines by which
    these have moved.
    """

    first: int
    end: int
    shift: int

    @classmethod
    def between(cls, before: Sequence[str], after: Sequence[str]) -> ChangedLines:
        shortest = min(len(before), len(after))
        first = 0
        while first < shortest and before[first] == after[first]:
            first += 1
        last = 0
        while last < shortest - first and before[-1 - last] == after[-1 - last]:
            last += 1
        return cls(first, len(before) - last, len(after) - len(before))

    def move(self, range_: Range) -> Range | None:
        """Return the range in the later text of ``range_``, a range of the earlier text; None if
        its lines changed.
        """
        if range_.end.line < self.first or range_.end == Position(self.first, 0):
            return range_
        if range_.start.line < self.end:
            return None
        start, end = (
            dataclasses.replace(one, line=one.line + self.shift)
            for one in (range_.start, range_.end)
        )
        return Range(start, end)


def move_fix(fix: Fix, changed: ChangedLines, text: str) -> Fix | None:
    """Return a fix with its lines in the later text ``text``; None if the fix's lines have changed.

    The caller must know that the traces of the fixed functions would still give the same results.
    """
    edits = []
    for edit in fix.edits:
        place = changed.move(edit.range)
        if place is None:
            return None
        edits.append(dataclasses.replace(edit, range=place))
    findings: list[Finding] = []
    for finding in fix.findings:
        place = changed.move(finding.range)
        if place is None:
            return None
        findings.append(dataclasses.replace(finding, range=place))
    candidate = dataclasses.replace(fix.candidate, text=apply_edits(text, edits))
    return dataclasses.replace(
        fix, candidate=candidate, edits=tuple(edits), findings=tuple(findings)
    )


def changed_lines(before: str, after: str) -> ChangedLines:
    """Find the changed lines between two texts."""
    return ChangedLines.between(TextPositions(before).lines, TextPositions(after).lines)
