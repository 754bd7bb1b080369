"""``textDocument/codeAction``: fixes and repro scripts of findings, and documents about traced
functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.command_actions import (
    allow_actions,
    reduce_actions,
    repro_actions,
    show_actions,
)
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.fix_actions import (
    fix_actions,
    fix_all_actions,
    measured_actions,
    state_actions,
)
from fullgraph.lsp.places import position_key, range_in, workspace_edit
from fullgraph.lsp.probes import probe_fixes
from fullgraph.lsp.server_capabilities import REDUCE_KIND, REPRO_KIND, is_requested
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.documents import Document
from fullgraph.session.ignores import ignore_fix
from fullgraph_engine.protocol import Fix

METHOD = types.TEXT_DOCUMENT_CODE_ACTION
_REWRITE = types.CodeActionKind.RefactorRewrite


def handle(context: ServerContext, params: types.CodeActionParams) -> list[types.CodeAction]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None:
        return []
    unit.look_at(params.range.start.line, params.range.end.line)
    only = params.context.only
    findings = [
        item for item in unit.view.findings() if _is_in_request(item, unit.document, params)
    ]
    quick = is_requested(types.CodeActionKind.QuickFix.value, only)
    actions: list[types.CodeAction] = []
    context.fixes.prefer(unit, findings)
    if quick:
        actions += fix_actions(context, unit, findings)
        actions += [
            _quick_fix(context, unit, item, fix) for item in findings for fix in item.finding.fixes
        ]
        actions += allow_actions(context, unit, findings)
        actions += state_actions(context, unit, findings)
    if is_requested(REPRO_KIND, only):
        actions += repro_actions(context, unit, findings)
    if quick:
        # An action that ignores a finding does not improve the code, so it comes last.
        actions += _ignore_actions(context, unit, findings)
    if is_requested(_REWRITE, only):
        actions += measured_actions(context, unit, params.range.start.line)
        actions += [
            types.CodeAction(
                title=fix.title,
                kind=_REWRITE,
                edit=workspace_edit(context.client, unit.document, fix.edits),
            )
            for fix in probe_fixes(unit, params)
        ]
    actions += fix_all_actions(context, unit, only)
    actions += show_actions(unit, params)
    if is_requested(REDUCE_KIND, only):
        actions += reduce_actions(unit, params)
    return actions


def _ignore_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    for item in findings:
        if (fix := ignore_fix(item.finding, unit.document.positions)) is not None:
            yield _quick_fix(context, unit, item, fix)


def _quick_fix(
    context: ServerContext, unit: AnalysisUnit, item: FileFinding, fix: Fix
) -> types.CodeAction:
    diagnostic = context.publication.diagnostics.for_finding(item, unit.document)
    return types.CodeAction(
        title=fix.title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True if fix.preferred and context.client.code_action_preferred else None,
        edit=workspace_edit(context.client, unit.document, fix.edits),
    )


def _is_in_request(item: FileFinding, document: Document, params: types.CodeActionParams) -> bool:
    """Whether the requested range includes the range of a finding.

    Neovim requests the position of the cursor, and sends the diagnostics of the whole line.
    """
    range_ = range_in(document, item.finding.range)
    named = any(
        diagnostic.code == item.finding.code and diagnostic.range == range_
        for diagnostic in params.context.diagnostics
    )
    return named or _touches_range(range_, params)


def _touches_range(range_: types.Range, params: types.CodeActionParams) -> bool:
    start, end = position_key(params.range.start), position_key(params.range.end)
    return position_key(range_.start) <= end and start <= position_key(range_.end)
