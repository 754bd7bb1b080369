"""``fullgraph/file``: what was traced in a file and what was not, for clients with a status bar."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import FILE_SUMMARY
from fullgraph.render.file_summary import (
    finding_words,
    summary_lines,
    summary_title,
    why_not_traced,
)
from fullgraph.session.file_summary import summarize_file
from fullgraph.session.fix_jobs import SearchState

METHOD = FILE_SUMMARY


async def handle(context: ServerContext, params: Any) -> dict[str, Any] | None:
    """Return the summary of an open file, in words and as numbers; None if it is not open."""
    unit = await context.find_configured(params)
    if unit is None:
        return None
    summary = summarize_file(context.session, unit)
    return {
        "uri": unit.document.uri,
        "version": unit.document.version,
        "problems": summary.counts.problems,
        "notes": summary.counts.notes,
        "traced": summary.traced,
        "targets": summary.targets,
        "tracing": summary.tracing,
        "relevant": summary.relevant,
        "title": summary_title(summary),
        "findings": finding_words(summary),
        "fixes": _search_words(context.fixes.find_state(unit)),
        "lines": [line for line in summary_lines(summary) if line],
        "missedLines": list(summary.missed_lines),
        "notTraced": [
            {"name": one.name, "line": one.line, "why": why_not_traced(one)}
            for one in summary.not_traced
        ],
    }


def _search_words(state: SearchState) -> str:
    """Describe the search for fixes: ``looking for fixes``, ``fixes for 2``, ``no fixes``. Empty if
    there was nothing to fix."""
    if state.is_searching:
        return "looking for fixes"
    if state.fixed:
        return f"fixes for {state.fixed}"
    return "no fixes" if state.unfixed else ""
