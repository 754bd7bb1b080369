"""``# fullgraph: ignore[CODE, …]`` comments, which hide findings."""

from __future__ import annotations

from collections.abc import Iterable

from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph_engine.protocol import Finding, Fix, Range, TextEdit
from fullgraph_engine.protocol.comments import IGNORE

_OPEN_ENDS = ("\\", '"""', "'''")
"""Line ends after which a statement may continue on the next line, so that adding a comment there
is unsafe.
"""


def remove_ignored(found: Iterable[FileFinding], text: TextPositions) -> tuple[FileFinding, ...]:
    """Return the findings that no comment on their first or last line hides."""
    return tuple(item for item in found if not _is_ignored(item.finding, text))


def ignore_fix(finding: Finding, text: TextPositions) -> Fix | None:
    """Return a fix that hides a finding by adding an ignore comment, or its code to an existing
    one.

    None if the comment could become part of the code, and for findings about a comment with example
    inputs.
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
