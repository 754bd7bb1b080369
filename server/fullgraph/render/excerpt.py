"""Draw the source lines of a finding for a terminal, with the range of the finding underlined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.render import cells
from fullgraph.render.paint import Paint, Style
from fullgraph_engine.protocol import Range, TextEdit

# A range with more than _MOST_LINES lines is shown as its first lines and its last line.
_MOST_FIRST_LINES = 4
_MOST_LINES = 6


@dataclass(frozen=True)
class _Row:
    """A row of a source excerpt: pieces of text with their style.

    ``number`` is the zero-based line number, None for a row that underlines the row above. ``sign``
    separates the number from the code.
    """

    number: int | None
    parts: tuple[tuple[Style | None, str], ...]
    sign: str = "|"


class Excerpt:
    """Draws source excerpts of one finding behind a left margin as wide as its largest line
    number."""

    def __init__(self, paint: Paint, margin: int) -> None:
        self.paint = paint
        self.margin = margin

    def mark_range(self, text: TextPositions, place: Range, style: Style) -> list[str]:
        """Draw the lines of a range with one line of context on each side, and underline the
        range."""
        first, last = place.start.line, _last_line(place)
        if not 0 <= first < len(text):
            return []
        last = min(last, len(text) - 1)
        rows = [_Row(None, ())]
        if first > 0 and text.line(first - 1).strip():
            rows.append(self._code_row(text, first - 1, last > first))
        rows += (
            self._single_line(text, place, style)
            if last == first
            else self._multiple_lines(text, place, style)
        )
        if last + 1 < len(text) and text.line(last + 1).strip():
            rows.append(self._code_row(text, last + 1, last > first))
        rows.append(_Row(None, ()))
        return [self._draw_row(row) for row in rows]

    def draw_edit(self, text: TextPositions, edit: TextEdit) -> list[str]:
        """Draw the lines that an edit removes (``-``) and adds (``+``), with one line of context on
        each side."""
        first, last = edit.range.start.line, edit.range.end.line
        if not 0 <= first < len(text):
            return []
        last = min(last, len(text) - 1)
        head = text.line(first)[: text.column(edit.range.start)]
        tail = text.line(last)[text.column(edit.range.end) :]
        before = [text.line(number) for number in range(first, last + 1)]
        after = (head + edit.text + tail).split("\n")
        # Draw lines that the edit leaves unchanged at both ends as context.
        start = 0
        while before and after and before[0] == after[0]:
            del before[0], after[0]
            start += 1
        while before and after and before[-1] == after[-1]:
            del before[-1], after[-1]
        top = first + start
        rows = [_Row(None, ())]
        if top > 0 and text.line(top - 1).strip():
            rows.append(self._code_row(text, top - 1, False))
        rows += [self._changed_row(top + i, "-", line) for i, line in enumerate(before)]
        rows += [self._changed_row(top + i, "+", line) for i, line in enumerate(after)]
        follow = top + len(before)
        if follow < len(text) and text.line(follow).strip():
            code = self._code_row(text, follow, False)
            rows.append(_Row(top + len(after), code.parts))
        rows.append(_Row(None, ()))
        return [self._draw_row(row) for row in rows]

    def draw_gutter(self, sign: str = "|") -> str:
        return " " * (self.margin + 1) + (self.paint(Style.GUTTER, sign) if sign.strip() else sign)

    @property
    def room(self) -> int:
        """Number of terminal cells for code to the right of the margin."""
        return max(40, self.paint.code - self.margin - 4)

    def _single_line(self, text: TextPositions, place: Range, style: Style) -> Iterator[_Row]:
        number = place.start.line
        line = text.line(number)
        start = text.column(place.start)
        end = text.column(place.end) if place.end.line == number else len(line)
        part = cells.crop(line, start, self.room)
        left = "…" if part.before else ""
        right = "…" if part.after else ""
        code = left + cells.printable(part.text) + right
        yield _Row(number, ((None, code),))
        before = len(left) + cells.width(line[part.skipped : start])
        # An empty range is underlined with one character.
        marked = cells.width(line[start : min(end, part.skipped + len(part.text))])
        yield _Row(None, ((None, " " * before), (style, "^" * max(1, marked))))

    def _multiple_lines(self, text: TextPositions, place: Range, style: Style) -> Iterator[_Row]:
        first, last = place.start.line, min(_last_line(place), len(text) - 1)
        line = text.line(first)
        start = text.column(place.start)
        if line[:start].strip():
            yield self._code_row(text, first, True)
            arm = "_" * (cells.width(line[:start]) + 1)
            yield _Row(None, ((style, f" {arm}^"),))
        else:
            yield self._code_row(text, first, True, (style, "/ "))
        folded = last - first + 1 > _MOST_LINES
        for number in range(first + 1, last + 1):
            if folded and number == first + _MOST_FIRST_LINES:
                yield _Row(None, ((style, "| "), (Style.DIM, "…")))
            if not folded or number < first + _MOST_FIRST_LINES or number == last:
                yield self._code_row(text, number, True, (style, "| "))
        ending = text.line(last)
        end = text.column(place.end) if place.end.line == last else len(ending)
        arm = "_" * max(1, cells.width(ending[:end]))
        yield _Row(None, ((style, f"|{arm}^"),))

    def _code_row(
        self,
        text: TextPositions,
        number: int,
        indented: bool,
        lead: tuple[Style | None, str] = (None, "  "),
    ) -> _Row:
        part = cells.crop(text.line(number), 0, self.room - 2)
        code = cells.printable(part.text).rstrip() + ("…" if part.after else "")
        return _Row(number, ((lead, (None, code)) if indented else ((None, code),)))

    def _changed_row(self, number: int, sign: str, line: str) -> _Row:
        part = cells.crop(line, 0, self.room - 2)
        style = Style.ADDED if sign == "+" else Style.REMOVED
        code = cells.printable(part.text).rstrip() + ("…" if part.after else "")
        return _Row(number, ((style, code),), sign)

    def _draw_row(self, row: _Row) -> str:
        number = "" if row.number is None else str(row.number + 1)
        styles = {"|": Style.GUTTER, "+": Style.ADDED, "-": Style.REMOVED}
        gutter = self.paint(Style.GUTTER, f"{number:>{self.margin}}")
        sign = self.paint(styles[row.sign], row.sign)
        body = "".join(part if s is None else self.paint(s, part) for s, part in row.parts)
        return f"{gutter} {sign} {body}".rstrip()


def margin_width(*ranges: Range, extra: int = 0) -> int:
    """Return the number of digits of the largest line number in an excerpt of the ranges.

    The excerpt has a line of context after the ranges, and ``extra`` further lines.
    """
    lines = [number for place in ranges for number in (place.start.line, place.end.line)]
    return len(str(max(lines, default=0) + 2 + extra))


def _last_line(place: Range) -> int:
    # A range that ends at the start of a line does not include that line.
    if place.end.byte == 0 and place.end.line > place.start.line:
        return place.end.line - 1
    return max(place.end.line, place.start.line)
