"""Hover section about a word of a probe comment (the inputs to trace with), and about the trace
with these inputs."""

from __future__ import annotations

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.probes import ProbeComment, comment_on, probe_tokens, scope_at
from fullgraph.probes.meaning import explain_word
from fullgraph.render import shapes
from fullgraph.render.summary import compilation_details, paths_words, target_line
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.probe_runs import run_of_comment


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section about the probe comment at ``offset`` (code points); None outside of probe
    comments."""
    positions = unit.document.positions
    line = positions.position_at(offset).line
    comment = comment_on(positions, line)
    begin = positions.start(line) + (comment.start if comment is not None else 0)
    if comment is None or not begin <= offset <= begin + len(comment.text):
        return None
    at = offset - begin
    token = next(
        (
            candidate
            for candidate in probe_tokens(comment.text)
            if candidate.start <= at <= candidate.end
        ),
        None,
    )
    parts = []
    if token is not None:
        parts.append(
            explain_word(comment.text, token, scope_at(unit.document.text, positions, line))
        )
    if not comment.directive:
        parts.append(_run_summary(unit, comment))
    page = "\n\n".join(filter(None, parts))
    if not page:
        return None
    start, end = (token.start, token.end) if token is not None else (0, len(comment.text))
    return HoverSection(page, shapes.strip_markdown(page), begin + start, begin + end)


def _run_summary(unit: AnalysisUnit, comment: ProbeComment) -> str:
    shown = run_of_comment(unit.document.positions, unit.view.reports(), comment)
    if shown is None:
        return "Nothing was traced with this probe yet."
    old = "" if shown.current else " (before the last edit)"
    words = f"**{shown.report.name}**{old}: {target_line(shown.report)}"
    compilation = shown.report.compilation
    compiled = [compilation_details(compilation)] if compilation is not None else []
    return "\n\n".join([words, *paths_words(shown.report), *compiled])
