"""``# fullgraph: ignore[CODE, …]`` comments, which hide findings."""

from __future__ import annotations

import contextlib
import io
import tokenize
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import listing
from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.session.trace_extent import TraceExtent
from fullgraph_engine.protocol import Finding, Fix, Position, Range, TextEdit, place_words
from fullgraph_engine.protocol.comments import IGNORE

UNUSED = "ignore/unused"
"""Code of findings about ignore comments that hide nothing."""

_OPEN_ENDS = ("\\", '"""', "'''")
"""Endings of lines after which a statement may continue on the next line, so that adding a comment
there is unsafe."""


def remove_ignored(found: Iterable[FileFinding], text: TextPositions) -> tuple[FileFinding, ...]:
    """Return the findings that no comment on their first or last line hides."""
    return tuple(item for item in found if not _is_ignored(item.finding, text))


def ignore_fix(finding: Finding, text: TextPositions) -> Fix | None:
    """Return a fix that hides a finding by adding an ignore comment, or its code to an existing
    one.

    None if the comment could become part of the code, and for findings about a comment with example
    inputs or an ignore comment.
    """
    number = finding.range.end.line
    line = text.line(number)
    rest = line[text.column(finding.range.end) :]
    if finding.code.startswith(("probe/", "ignore/")) or any(end in rest for end in _OPEN_ENDS):
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


def unused_ignores(
    found: Iterable[FileFinding], text: TextPositions, extent: TraceExtent
) -> Iterator[Finding]:
    """Yield a finding for each ignore comment with an unused code.

    ``found`` are all findings of the file, including hidden ones. ``extent`` has the lines and
    codes about which the traces of the file are conclusive. A comment that names the code
    ``ignore/unused`` is left out.
    """
    if not extent.lines or not has_ignore_comments(text):
        return
    by_line: dict[int, set[str]] = {}
    for item in found:
        for number in {item.finding.range.start.line, item.finding.range.end.line}:
            by_line.setdefault(number, set()).add(item.finding.code)
    for comment in _find_ignore_comments(text):
        here = by_line.get(comment.line, set())
        unused = tuple(comment.unused_selectors(here, extent))
        hides_all = extent.everything and not comment.selectors
        if comment.line in extent.lines and (unused or (hides_all and not here)):
            yield _unused_finding(comment, unused, text)


@dataclass(frozen=True)
class IgnoreComment:
    """An ignore comment after code: its range in the file, its codes as written, and the edit that
    removes it completely."""

    range: Range
    codes: str
    removal: TextEdit

    @property
    def line(self) -> int:
        return self.range.start.line

    @property
    def selectors(self) -> tuple[str, ...]:
        return _split_selectors(self.codes)

    def unused_selectors(self, here: Collection[str], extent: TraceExtent) -> Iterator[str]:
        """Yield the codes of the comment that no finding on its line has, although the traces
        looked for them. ``here`` has the codes of the findings on the line."""
        if any(codes.matches_selector(UNUSED, one) for one in self.selectors):
            return
        for selector in self.selectors:
            is_used = any(codes.matches_selector(code, selector) for code in here)
            if not is_used and extent.looks_for(selector):
                yield selector

    def keep_codes(self, unused: Collection[str], text: TextPositions) -> TextEdit:
        """Return the edit that removes the codes in ``unused``. If all codes of the comment are
        unused, the edit removes the whole comment."""
        parts = self.codes.split(",")
        kept = [part for part in parts if part.strip() and part.strip() not in unused]
        if not kept:
            return self.removal
        new = ",".join(kept)
        new = new if kept[0] is parts[0] else new.lstrip()
        written = text.text_in(self.range)
        start = len(written.partition("[")[0].encode()) + 1
        first = Position(self.line, self.range.start.byte + start)
        last = Position(self.line, first.byte + len(self.codes.encode()))
        return TextEdit(Range(first, last), new)


def has_ignore_comments(text: TextPositions) -> bool:
    """Whether a line of the text looks like an ignore comment; the text is not parsed."""
    return "fullgraph:" in text.text and any(map(IGNORE.search, text.lines))


def _find_ignore_comments(text: TextPositions) -> Iterator[IgnoreComment]:
    """Yield the ignore comments that follow code, in the order of the text."""
    source = io.StringIO("\n".join(text.lines))
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(source.readline):
            if token.type != tokenize.COMMENT:
                continue
            number, column = token.start[0] - 1, token.start[1]
            line = text.line(number)
            there = IGNORE.search(line, column)
            if there is None or not line[:column].strip():
                continue

            def place(start: int, end: int, number: int = number) -> Range:
                first, last = (
                    text.position(number, character, Encoding.UTF32) for character in (start, end)
                )
                return Range(first, last)

            is_last = there.end() == len(line)
            start = len(line[: there.start()].rstrip()) if is_last else there.start()
            yield IgnoreComment(
                place(there.start(), there.start() + len(there[0].rstrip())),
                there["codes"] or "",
                TextEdit(place(start, there.end()), ""),
            )


def _unused_finding(
    comment: IgnoreComment, unused: Collection[str], text: TextPositions
) -> Finding:
    is_whole = set(unused) == set(comment.selectors)
    if is_whole:
        message = "Unused ignore comment: it does not hide a finding on this line"
        title = "Remove unused ignore comment"
    else:
        listed = listing(f"`{one}`" for one in unused)
        message = f"Unused in this ignore comment: {listed}"
        title = f"Remove {listed} from the ignore comment"
    return Finding(
        code=UNUSED,
        message=message,
        range=comment.range,
        fixes=(Fix(title, (comment.keep_codes(unused, text),), preferred=True),),
        unnecessary=is_whole,
        identity=f"{UNUSED}@{place_words(comment.range)}",
    )


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
