"""Move verified fixes to a later text in which only other code has changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import apply_edits
from fullgraph.fixes.verification import Fix
from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph_engine.protocol import Finding, Position, Range, TextEdit, count_equal_ends

_T = TypeVar("_T", Finding, TextEdit)


def changed_lines(before: str, after: str) -> AppliedEdit:
    """Return the edit of whole lines from the first to the last difference of two texts."""
    old, new = TextPositions(before).lines, TextPositions(after).lines
    first, last = count_equal_ends(old, new)
    ends = (Position(len(lines) - last, 0) for lines in (old, new))
    return AppliedEdit(Position(first, 0), *ends)


def move_range(range_: Range, edit: AppliedEdit) -> Range | None:
    """Return the range in the later text that corresponds to a range in the earlier text.

    ``edit`` is the difference between the texts. None if it changed the lines of the range.
    """
    if range_.end <= edit.start:  # an insertion right after the range does not move it
        return range_
    try:
        return edit.move_range(range_)
    except LineLost:
        return None


def move_fix(fix: Fix, changed: AppliedEdit, text: str) -> Fix | None:
    """Return a fix with its lines in the later text ``text``; None if the fix's lines have changed.

    The caller must know that the traces of the fixed functions would still give the same results.
    """
    edits, findings = _move_all(fix.edits, changed), _move_all(fix.findings, changed)
    if len(edits) < len(fix.edits) or len(findings) < len(fix.findings):
        return None
    candidate = dataclasses.replace(fix.candidate, text=apply_edits(text, edits))
    return dataclasses.replace(fix, candidate=candidate, edits=edits, findings=findings)


def _move_all(ranged: Iterable[_T], changed: AppliedEdit) -> tuple[_T, ...]:
    return tuple(
        dataclasses.replace(one, range=range_)
        for one in ranged
        if (range_ := move_range(one.range, changed)) is not None
    )
