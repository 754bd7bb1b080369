"""Format a documentation page for a terminal, or for an editor without Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph.domain.phrases import SEPARATOR
from fullgraph.render import cells
from fullgraph.render.operators.folding import fold_line, number_lines
from fullgraph.render.operators.page import OperatorPage, PageSection, capitalize_sentence
from fullgraph.render.paint import PLAIN, Paint, Style

_INDENT = "  "
_CODE = re.compile(r"`([^`]*)`")


def page_text(page: OperatorPage, paint: Paint = PLAIN) -> str:
    """Format a documentation page as text; prose is broken at ``paint.width`` columns."""
    return "\n".join(line.rstrip() for line in _page_lines(page, paint))


def _page_lines(page: OperatorPage, paint: Paint) -> Iterator[str]:
    yield from _code_lines(page.visible, page.numbered, paint, style=Style.STRONG)
    if page.hidden:
        yield paint(Style.DIM, f"… and {page.hidden} more")
    if page.facts:
        yield ""
        yield from _fact_lines(page, paint)
    prose = [*filter(None, [page.summary]), *page.remarks]
    if prose:
        yield ""
    for paragraph in prose:
        yield from _prose_lines(paragraph, "", paint)
    if page.hidden:
        yield from _heading_lines(page.all_heading, paint)
        yield from _code_lines(page.signatures, page.numbered, paint, _INDENT)
    for section in page.sections:
        yield from _section_lines(section, paint)
    if page.href:
        yield ""
        yield f"{paint(Style.STRONG, 'Documentation:')} {paint(Style.LINK, page.href)}"


def _fact_lines(page: OperatorPage, paint: Paint) -> Iterator[str]:
    """Yield the facts of a page in lines of at most ``paint.width`` columns."""
    line, used = "", 0
    for fact in page.facts:
        plain = _CODE.sub(r"\1", fact.text)
        if used and used + len(SEPARATOR) + cells.width(plain) > paint.width:
            yield line
            line, used = "", 0
        separator = SEPARATOR if used else ""
        style = Style.WARNING if fact.alarming else Style.HINT
        line += separator + paint(style, plain)
        used += len(separator) + cells.width(plain)
    yield line


def _section_lines(section: PageSection, paint: Paint) -> Iterator[str]:
    yield from _heading_lines(section.heading, paint)
    yield from _code_lines(section.code, section.numbered, paint, _INDENT)
    bullet = "- " if len(section.items) > 1 else ""
    for item in section.items:
        yield from _prose_lines(capitalize_sentence(item), _INDENT, paint, bullet)


def _heading_lines(text: str, paint: Paint) -> Iterator[str]:
    yield ""
    yield paint(Style.STRONG, text)


def _code_lines(
    lines: tuple[str, ...], many: bool, paint: Paint, indent: str = "", style: Style | None = None
) -> Iterator[str]:
    width = min(paint.code, 100) - len(indent)
    shown = (
        number_lines(lines, width)
        if many
        else (part for line in lines for part in fold_line(line, width))
    )
    for line in shown:
        text = cells.printable(line)
        yield indent + (paint(style, text) if style is not None else text)


def _prose_lines(text: str, indent: str, paint: Paint, bullet: str = "") -> Iterator[str]:
    room = max(40, paint.width - len(indent) - len(bullet))
    lead = bullet
    for line in cells.wrap(cells.printable(text), room):
        yield f"{indent}{lead}{line.replace('`', '')}"
        lead = " " * len(bullet)
