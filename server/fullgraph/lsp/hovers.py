"""The sections of a hover: one function for each kind of information about the code under the
cursor.

Each function gets an offset in code points of the text, and returns None if it has nothing to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.wording import consequence, explanation, message_lines
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.fix_actions import fix_state_words
from fullgraph.operators import subject_at
from fullgraph.operators.schema_string import schema_string_at
from fullgraph.operators.text import TokenizedText
from fullgraph.probes import ProbeComment, comment_on, probe_tokens, scope_at
from fullgraph.probes.meaning import explain_word
from fullgraph.render.breaks import cost_clause, cost_page
from fullgraph.render.forecasts import forecast_page
from fullgraph.render.guards import GuardQuery, answer_markdown, answer_text, find_guards
from fullgraph.render.operators import (
    OperatorPage,
    page_markdown,
    page_of,
    page_of_schema,
    page_text,
)
from fullgraph.render.shapes import strip_markdown, values_page
from fullgraph.render.summary import compilation_details, paths_words, target_line
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.probe_runs import run_of_comment
from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.shapes import PlaceShapes

_MOST_HINTS = 3
_PARAGRAPH = "\n\n"
_LONGEST = 60
"""Maximum number of characters of the hovered expression's code in the hover section about its
values.
"""
_STEP = re.compile(r"\.\w+|\[(?:\d+|'[^'\n]*'|\"[^\"\n]*\")\]")
_PATH = re.compile(rf"(?<![\w.\])])[^\W\d]\w*(?:{_STEP.pattern})*")


@dataclass(frozen=True)
class HoverSection:
    """A section of a hover; ``start`` and ``end`` are the code points of the text it describes."""

    markdown: str
    start: int
    end: int
    spelled: str = ""
    """Plain text of the section, if it is not the Markdown text without its markup."""

    @property
    def plain(self) -> str:
        return self.spelled or strip_markdown(self.markdown)

    @property
    def length(self) -> int:
        return self.end - self.start


def hover_sections(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> Iterator[HoverSection]:
    """Yield the hover sections with information about an offset, counted in code points of the
    text."""
    for find_section in _SECTIONS:
        section = find_section(context, unit, offset)
        if section is not None:
            yield section


def _span_at(unit: AnalysisUnit, range_: Range, offset: int) -> tuple[int, int] | None:
    """Return (start, end) of a range in code points if it contains an offset; else None."""
    positions = unit.document.positions
    start, end = positions.offset(range_.start), positions.offset(range_.end)
    return (start, end) if start <= offset <= end else None


def _findings_section(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> HoverSection | None:
    """Return a section with the findings under the cursor and how to fix them, narrowest range
    first.

    None for clients that show diagnostics in their hover themselves.
    """
    if not context.client.hover_findings:
        return None
    found = [
        HoverSection(
            "\n\n".join(_finding_blocks(item, fix_state_words(context, unit, item))), *span
        )
        for item in unit.view.findings()
        if (span := _span_at(unit, item.finding.range, offset)) is not None
    ]
    if not found:
        return None
    found.sort(key=lambda section: section.length)
    page = "\n\n---\n\n".join(section.markdown for section in found)
    return HoverSection(page, found[0].start, found[0].end)


def _finding_blocks(item: FileFinding, fix_state: str) -> Iterator[str]:
    finding = item.finding
    first, *more = message_lines(finding)
    yield f"**{first}**"
    yield from more
    yield from filter(None, [consequence(finding)])
    if finding.cost is not None:
        yield f"Cost: {cost_clause(finding.cost)}."
    ways = [*(fix.title for fix in finding.fixes), *finding.hints[:_MOST_HINTS]]
    if ways:
        yield "\n".join(f"- {' '.join(way.split())}" for way in ways)
    if fix_state:
        yield fix_state
    yield f"[{finding.code}]({item.href})" if item.href else finding.code
    if words := explanation(finding):
        yield f"---\n\n{words.split(_PARAGRAPH)[0]}"


def _breaks_section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the costs of the graph breaks under the cursor."""
    found = [
        HoverSection(cost_page(item.finding.cost), *span)
        for item in unit.view.findings()
        if item.finding.cost is not None
        if (span := _span_at(unit, item.finding.range, offset)) is not None
    ]
    if not found:
        return None
    smallest = min(found, key=lambda section: section.length)
    page = "\n\n".join(dict.fromkeys(section.markdown for section in found))
    return HoverSection(page, smallest.start, smallest.end)


def _probes_section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section about the word of a probe comment (the inputs to trace with) under the
    cursor, and about the trace with these inputs."""
    positions = unit.document.positions
    line = positions.position_at(offset).line
    comment = comment_on(positions, line)
    begin = positions.start(line) + (comment.start if comment is not None else 0)
    if comment is None or not begin <= offset <= begin + len(comment.text):
        return None
    at = offset - begin
    tokens = probe_tokens(comment.text)
    token = next((token for token in tokens if token.start <= at <= token.end), None)
    parts = []
    if token is not None:
        scope = scope_at(unit.document.text, positions, line)
        parts.append(explain_word(comment.text, token, scope))
    if not comment.directive:
        parts.append(_run_summary(unit, comment))
    page = "\n\n".join(filter(None, parts))
    if not page:
        return None
    start, end = (token.start, token.end) if token is not None else (0, len(comment.text))
    return HoverSection(page, begin + start, begin + end)


def _run_summary(unit: AnalysisUnit, comment: ProbeComment) -> str:
    shown = run_of_comment(unit.document.positions, unit.view.reports(), comment)
    if shown is None:
        return "Nothing was traced with this probe yet."
    old = "" if shown.current else " (before the last edit)"
    words = f"**{shown.report.name}**{old}: {target_line(shown.report)}"
    compilation = shown.report.compilation
    compiled = [compilation_details(compilation)] if compilation is not None else []
    return "\n\n".join([words, *paths_words(shown.report), *compiled])


def _shapes_section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the values that the smallest expression under the cursor had in the
    last trace."""
    text = unit.document.text
    place: PlaceShapes | None = None
    extent = 0, len(text)
    line = text.count("\n", 0, offset) if "\r" not in text else None
    for candidate in unit.view.seen_shapes():
        if line is not None and not candidate.range.start.line <= line <= candidate.range.end.line:
            continue
        span = _span_at(unit, candidate.range, offset)
        # If several expressions share a range, the last one is the returned value.
        if span is not None and span[1] - span[0] <= extent[1] - extent[0]:
            place, extent = candidate, span
    if place is None:
        return None
    code = text[slice(*extent)]
    shown = code if "\n" not in code and len(code) <= _LONGEST else place.name
    note = unit.view.shapes_note
    values = values_page(place, shown, unit.view.shape_counts(place))
    page = f"**Seen in the last trace**\n\n{values}"
    page += f"\n\n{note}" if note else ""
    return HoverSection(page, *extent)


def _forecasts_section(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> HoverSection | None:
    """Return a section about the calls that will recompile the function whose name is under the
    cursor."""
    for shown in unit.view.reports():
        name, span = shown.report.name, _span_at(unit, shown.report.range, offset)
        forecast = unit.view.find_forecast(name) if span is not None else None
        if span is not None and forecast is not None and (forecast.rows or forecast.notes):
            fresh = name in unit.results.forecasts.fresh
            page = forecast_page(name, forecast.rows, forecast.notes, fresh=fresh)
            return HoverSection(page, *span)
    return None


def _guards_section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section with the guards of the last trace on the expression under the cursor."""
    expression = expression_at(unit.document.text, offset) if unit.results.guards else None
    if expression is None:
        return None
    start, end = expression
    line, _ = unit.document.position_at(start)
    words = unit.document.text[start:end].replace('"', "'")
    query = GuardQuery(words, line)
    answer = find_guards(
        query, (frame for target in unit.results.guards.values() for frame in target.frames)
    )
    page = answer_markdown(query, answer)
    return HoverSection(page, start, end, answer_text(query, answer)) if page else None


def expression_at(text: str, offset: int) -> tuple[int, int] | None:
    """Return (start, end) of the dotted expression that ends with the name at ``offset``; None if
    no name is there.

    In ``self.blocks[0].weight`` with the cursor on ``blocks`` this is ``self.blocks``.
    """
    begin = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    for match in _PATH.finditer(text, begin, end if end >= 0 else len(text)):
        if not match.start() <= offset <= match.end():
            continue
        if TokenizedText.for_text(text).place_at(match.start() + 1) is None:
            return None  # the match is in a comment or a string
        stop = re.compile(r"\w+").match(text, match.start())
        last = stop.end() if stop else match.end()
        while last < offset and (step := _STEP.match(text, last, match.end())) is not None:
            last = step.end()
        return match.start(), last
    return None


def _operators_section(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> HoverSection | None:
    """Return a section about the name, operator or schema under the cursor."""
    found = _find_page(context, unit, offset)
    if found is None:
        return None
    page, start, end = found
    return HoverSection(page_markdown(page), start, end, page_text(page))


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


_SECTIONS = (
    _findings_section,
    _breaks_section,
    _probes_section,
    _shapes_section,
    _forecasts_section,
    _guards_section,
    _operators_section,
)
"""Functions that find the sections, in the order in which a hover shows them."""
