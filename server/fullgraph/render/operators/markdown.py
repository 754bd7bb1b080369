"""Format a page as the Markdown of a hover."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import SEPARATOR
from fullgraph.render.operators.folding import fold, numbered
from fullgraph.render.operators.page import OperatorPage, Section, sentence

_WIDTH = 88


def markdown(page: OperatorPage) -> str:
    """Format a page: signatures, summary and facts first, everything else under headings."""
    return "\n\n".join(_blocks(page)) + "\n"


def _blocks(page: OperatorPage) -> Iterator[str]:
    lines = list(_code(page.visible, page.numbered))
    if page.hidden:
        lines.append(f"# … and {page.hidden} more")
    yield _fenced(lines)
    if page.facts:
        yield SEPARATOR.join(
            f"**{fact.text}**" if fact.alarming else fact.text for fact in page.facts
        )
    if page.summary:
        yield page.summary
    yield from page.remarks
    # The link is placed above the part that hover windows cut off.
    if page.href:
        yield f"[Documentation]({page.href})"
    if page.hidden:
        yield _section(Section(page.all_of_them))
        yield _fenced(_code(page.signatures, page.numbered))
    for section in page.sections:
        yield _section(section)


def _section(section: Section) -> str:
    parts = [f"#### {section.heading}"]
    if section.code:
        parts.append(_fenced(_code(section.code, section.numbered)))
    if len(section.items) == 1:
        parts.append(sentence(section.items[0]))
    elif section.items:
        parts.append("\n".join(f"- {sentence(item)}" for item in section.items))
    return "\n\n".join(parts)


def _code(lines: tuple[str, ...], many: bool) -> Iterator[str]:
    if many:
        yield from numbered(lines, _WIDTH)
    else:
        for line in lines:
            yield from fold(line, _WIDTH)


def _fenced(lines: Iterator[str] | list[str]) -> str:
    return "\n".join(["```python", *lines, "```"])
