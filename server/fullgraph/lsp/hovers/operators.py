"""Hover section about the name, operator or schema under the cursor."""

from __future__ import annotations

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.operators import subject_at
from fullgraph.operators.schema_string import schema_string_at
from fullgraph.render.operators import (
    OperatorPage,
    page_markdown,
    page_of,
    page_of_schema,
    page_text,
)
from fullgraph.session.analysis_unit import AnalysisUnit


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the documentation page of the operator or name at ``offset`` (code
    points); None without a page."""
    found = _find_page(context, unit, offset)
    if found is None:
        return None
    page, start, end = found
    return HoverSection(page_markdown(page), page_text(page), start, end)


def _find_page(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> tuple[OperatorPage, int, int] | None:
    """Return the documentation page for an offset, and the start and end of the text that the page
    describes."""
    text = unit.document.text
    index = context.session.engines.find_index(unit)
    written = schema_string_at(text, offset)
    if written is not None:
        page = page_of_schema(index, written)
        return None if page is None else (page, written.start, written.end)
    subject = None if index is None else subject_at(text, offset, index, unit.view.seen_values())
    if index is None or subject is None:
        return None
    receiver = text[subject.start : subject.end].rpartition(".")[0].strip()
    page = page_of(index, subject, receiver if "\n" not in receiver else "")
    return None if page is None else (page, subject.start, subject.end)
