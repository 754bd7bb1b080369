"""Format a page for a terminal, or for an editor without Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph.domain.phrases import SEPARATOR
from fullgraph.render import cells
from fullgraph.render.operators.folding import fold, numbered
from fullgraph.render.operators.page import OperatorPage, Section, sentence
from fullgraph.render.paint import PLAIN, Paint, Style

_INDENT = "  "
_CODE = re.compile(r"`([^`]*)`")


def page_text(page: OperatorPage, paint: Paint = PLAIN) -> str:
    """Format a page; prose is broken at ``paint.width`` columns."""
    return "\n".join(line.rstrip() for line in _lines(page, paint))


def _lines(page: OperatorPage, paint: Paint) -> Iterator[str]:
    yield from _code(page.visible, page.numbered, paint, style=Style.STRONG)
    if page.hidden:
        yield paint(Style.DIM, f"… and {page.hidden} more")
    if page.facts:
        yield ""
        yield from _facts(page, paint)
    prose = [*filter(None, [page.summary]), *page.remarks]
    if prose:
        yield ""
    for paragraph in prose:
        yield from _prose(paragraph, "", paint)
    if page.hidden:
        yield from _heading(page.all_of_them, paint)
        yield from _code(page.signatures, page.numbered, paint, _INDENT)
    for section in page.sections:
        yield from _section(section, paint)
    if page.href:
        yield ""
        yield f"{paint(Style.STRONG, 'Documentation:')} {paint(Style.LINK, page.href)}"


def _facts(page: OperatorPage, paint: Paint) -> Iterator[str]:
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


def _section(section: Section, paint: Paint) -> Iterator[str]:
    yield from _heading(section.heading, paint)
    yield from _code(section.code, section.numbered, paint, _INDENT)
    bullet = "- " if len(section.items) > 1 else ""
    for item in section.items:
        yield from _prose(sentence(item), _INDENT, paint, bullet)


def _heading(text: str, paint: Paint) -> Iterator[str]:
    yield ""
    yield paint(Style.STRONG, text)


def _code(
    lines: tuple[str, ...], many: bool, paint: Paint, indent: str = "", style: Style | None = None
) -> Iterator[str]:
    width = min(paint.code, 100) - len(indent)
    shown = (
        numbered(lines, width) if many else (part for line in lines for part in fold(line, width))
    )
    for line in shown:
        text = cells.printable(line)
        yield indent + (paint(style, text) if style is not None else text)


def _prose(text: str, indent: str, paint: Paint, bullet: str = "") -> Iterator[str]:
    room = max(40, paint.width - len(indent) - len(bullet))
    lead = bullet
    for line in cells.wrap(cells.printable(text), room):
        yield f"{indent}{lead}{line.replace('`', '')}"
        lead = " " * len(bullet)
