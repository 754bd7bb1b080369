"""Format a documentation page as the Markdown of a hover in an editor."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import SEPARATOR
from fullgraph.render.operators.folding import fold_line, number_lines
from fullgraph.render.operators.page import OperatorPage, PageSection, capitalize_sentence

_WIDTH = 88


def page_markdown(page: OperatorPage) -> str:
    """Format a documentation page: signatures, summary and facts first, everything else under
    headings."""
    return "\n\n".join(_page_blocks(page)) + "\n"


def _page_blocks(page: OperatorPage) -> Iterator[str]:
    lines = list(_code_lines(page.visible, page.numbered))
    if page.hidden:
        lines.append(f"# … and {page.hidden} more")
    yield _fence_lines(lines)
    if page.facts:
        yield SEPARATOR.join(
            f"**{fact.text}**" if fact.alarming else fact.text for fact in page.facts
        )
    if page.summary:
        yield page.summary
    yield from page.remarks
    # The link is placed above the content that hover windows cut off.
    if page.href:
        yield f"[Documentation]({page.href})"
    if page.hidden:
        yield _section_markdown(PageSection(page.all_heading))
        yield _fence_lines(_code_lines(page.signatures, page.numbered))
    for section in page.sections:
        yield _section_markdown(section)


def _section_markdown(section: PageSection) -> str:
    parts = [f"#### {section.heading}"]
    if section.code:
        parts.append(_fence_lines(_code_lines(section.code, section.numbered)))
    if len(section.items) == 1:
        parts.append(capitalize_sentence(section.items[0]))
    elif section.items:
        parts.append("\n".join(f"- {capitalize_sentence(item)}" for item in section.items))
    return "\n\n".join(parts)


def _code_lines(lines: tuple[str, ...], many: bool) -> Iterator[str]:
    if many:
        yield from number_lines(lines, _WIDTH)
    else:
        for line in lines:
            yield from fold_line(line, _WIDTH)


def _fence_lines(lines: Iterator[str] | list[str]) -> str:
    return "\n".join(["```python", *lines, "```"])
