"""``# fullgraph: ignore[CODE, …]``: findings that somebody has seen and does not want shown."""

from __future__ import annotations

from collections.abc import Iterable

from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph_engine.protocol import Finding, Fix, Range, TextEdit
from fullgraph_engine.protocol.comments import IGNORE

_OPEN_ENDS = ("\\", '"""', "'''")
"""With one of these in it the rest of a line may go on in the next one, as the same statement."""


def remove_ignored(found: Iterable[FileFinding], text: TextPositions) -> tuple[FileFinding, ...]:
    """Without those that a comment hides, behind the line where they begin or the one where they
    end."""
    return tuple(item for item in found if not _is_ignored(item.finding, text))


def ignore_fix(finding: Finding, text: TextPositions) -> Fix | None:
    """The comment that hides a finding, or one more code in the comment that is there.

    None where a comment could become part of the code, and for what is wrong with a probe, which is
    a comment itself.
    """
    number = finding.range.end.line
    line = text.line(number)
    rest = line[text.column(finding.range.end) :]
    if finding.code.startswith("probe/") or any(end in rest for end in _OPEN_ENDS):
        return None
    title = f"Ignore {finding.code} on this line"
    there = IGNORE.search(line)
    if there is None:
        end = text.line_end(number)
        gap = "" if line.endswith(" ") else "  "
        comment = f"{gap}# fullgraph: ignore[{finding.code}]"
        return Fix(title, (TextEdit(Range(end, end), comment),))
    known = there["codes"]
    if known is None:
        return None
    place = text.position(number, there.end("codes"), Encoding.UTF32)
    more = f", {finding.code}" if known.strip() else finding.code
    return Fix(title, (TextEdit(Range(place, place), more),))


def _is_ignored(finding: Finding, text: TextPositions) -> bool:
    for number in {finding.range.start.line, finding.range.end.line}:
        there = IGNORE.search(text.line(number))
        if there is None:
            continue
        selectors = _split_selectors(there["codes"])
        if not selectors or any(codes.matches_selector(finding.code, each) for each in selectors):
            return True
    return False


def _split_selectors(written: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (written or "").split(","))))
