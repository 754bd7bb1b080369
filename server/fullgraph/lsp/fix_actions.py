"""Code actions that apply verified fixes of findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.fixes.candidate import edits_between
from fullgraph.lsp.command_actions import command_action, target_at
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import workspace_edit
from fullgraph.lsp.server_capabilities import EXPLAIN_FIXES, FIX_ALL_KIND, is_requested
from fullgraph.render.fixes import verification_words
from fullgraph.render.measured import fixes_words, speed_verdict
from fullgraph.render.summary import cut_message
from fullgraph.session.analysis_unit import AnalysisUnit

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed
    from fullgraph.fixes.verification import Fix

_ADVICE = {
    "safe": "",
    "unsafe": "; review first",
    "suggestion": "; not tested, adapt to your code first",
}
"""Text at the end of a fix's title, by the grade of the fix."""
_MOST_TITLE = 100
"""Maximum number of characters in the title of an action without a fix; clients show the whole
sentence as its reason."""


def fix_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield code actions that apply the fixes of findings, best first; only safe fixes are marked
    as preferred. A fix of several findings is one action."""
    diagnostics: dict[str, list[types.Diagnostic]] = defaultdict(list)
    distinct: dict[str, Fix] = {}
    for item in findings:
        diagnostic = context.publication.diagnostics.for_finding(item, unit.document)
        for fix in context.fixes.find_fixes(unit, item):
            distinct.setdefault(fix.candidate.text, fix)
            diagnostics[fix.candidate.text].append(diagnostic)
    for text, fix in distinct.items():
        preferred = fix.grade == "safe" and context.client.code_action_preferred
        yield types.CodeAction(
            title=f"{fix.candidate.title} ({describe_result(fix)})",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=diagnostics[text],
            is_preferred=True if preferred else None,
            edit=workspace_edit(context.client, unit.document, fix.edits),
        )


def state_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield a code action for each finding without a fix, which says whether the search is in
    progress or why it found nothing.

    It is disabled. In clients that do not show disabled actions, it opens a message instead.
    """
    for item in findings:
        words = fix_state_words(context, unit, item)
        if not words or context.fixes.find_fixes(unit, item):
            continue
        title = cut_message(words, _MOST_TITLE)
        kind = types.CodeActionKind.QuickFix
        if context.client.code_action_disabled:
            disabled = types.CodeActionDisabled(words)
            yield types.CodeAction(title=title, kind=kind, disabled=disabled)
        else:
            argument = {"uri": unit.document.uri, "finding": item.id}
            yield command_action(title, kind, EXPLAIN_FIXES, argument)


def fix_state_words(context: ServerContext, unit: AnalysisUnit, item: FileFinding) -> str:
    """Describe the best fix of a finding, the search for it, or why there is none; empty if no fix
    was looked for."""
    fixes = context.fixes.find_fixes(unit, item)
    if fixes:
        return f"Fix: {fixes[0].candidate.title} ({describe_result(fixes[0])})"
    if context.fixes.is_searching(unit, item):
        return "Looking for fixes…"
    reason = context.fixes.explain_absence(unit, item)
    return f"No fix: {reason}" if reason else ""


def describe_result(fix: Fix) -> str:
    """Describe what a fix was shown to do, and whether the user should review it."""
    return f"{verification_words(fix)}{_ADVICE[fix.grade]}"


def fix_all_actions(
    context: ServerContext, unit: AnalysisUnit, only: Sequence[types.CodeActionKind | str] | None
) -> Iterator[types.CodeAction]:
    """Yield a code action that applies all safe fixes of the file, if a trace has verified them
    together. ``only`` are the requested kinds of actions."""
    fix = context.fixes.find_combined_fix(unit)
    if fix is not None and is_requested(FIX_ALL_KIND, only):
        yield types.CodeAction(
            title="Fix all that is safe to fix (fullgraph)",
            kind=FIX_ALL_KIND,
            edit=workspace_edit(context.client, unit.document, fix.edits),
        )


def find_improvement(context: ServerContext, unit: AnalysisUnit, target: str) -> Timed | None:
    """Return the measurement of a function whose fixes are worth applying; None if the current text
    was not measured, or fixes gain nothing."""
    measurements = context.documents.find_measurements(unit, target)
    return next((one for one in measurements if one.is_applicable), None)


def measured_actions(
    context: ServerContext, unit: AnalysisUnit, line: int
) -> Iterator[types.CodeAction]:
    """Yield a code action that applies the fixes with which the function on a line was measured, if
    they are worth applying."""
    target = target_at(unit, line, anywhere=False)
    timed = find_improvement(context, unit, target) if target is not None else None
    if timed is None:
        return
    edits = edits_between(unit.document.text, timed.changed)
    yield types.CodeAction(
        title=f"Apply {fixes_words(timed)}: {speed_verdict(timed)}",
        kind=types.CodeActionKind.RefactorRewrite,
        edit=workspace_edit(context.client, unit.document, edits),
    )
