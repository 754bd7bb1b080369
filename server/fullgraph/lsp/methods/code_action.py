"""``textDocument/codeAction``: fixes and repros of findings, and documents about targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.action_kinds import asked_for
from fullgraph.lsp.allow_actions import allow_actions
from fullgraph.lsp.context import Context
from fullgraph.lsp.edits import text_edit
from fullgraph.lsp.fix_actions import fix_actions, fix_all_actions
from fullgraph.lsp.places import range_in
from fullgraph.lsp.probe_actions import found_probes
from fullgraph.lsp.repro_actions import reduce_actions, repro_actions
from fullgraph.lsp.server_capabilities import REDUCE_KIND, REPRO_KIND
from fullgraph.lsp.show_actions import show_actions
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.documents import Document
from fullgraph.session.ignores import ignoring
from fullgraph_engine.protocol import Fix

METHOD = types.TEXT_DOCUMENT_CODE_ACTION
_REWRITE = types.CodeActionKind.RefactorRewrite


def handle(context: Context, params: types.CodeActionParams) -> list[types.CodeAction]:
    unit = context.unit(params.text_document.uri)
    if unit is None:
        return []
    only = params.context.only
    there = [item for item in unit.findings() if _meant(item, unit.document, params)]
    quick = asked_for(types.CodeActionKind.QuickFix.value, only)
    actions: list[types.CodeAction] = []
    if quick:
        actions += fix_actions(context, unit, there)
        actions += [_mend(context, unit, item, fix) for item in there for fix in item.finding.fixes]
    if asked_for(REPRO_KIND, only):
        actions += repro_actions(context, unit, there)
    if quick:
        actions += allow_actions(context, unit, there)
        # Ignoring a finding does not improve the code, so it comes last.
        actions += _ignores(context, unit, there)
    if asked_for(_REWRITE, only):
        actions += [
            types.CodeAction(
                title=fix.title,
                kind=_REWRITE,
                edit=text_edit(context.client, unit.document, fix.edits),
            )
            for fix in found_probes(unit, params)
        ]
    actions += fix_all_actions(context, unit, only)
    actions += show_actions(unit, params)
    if asked_for(REDUCE_KIND, only):
        actions += reduce_actions(unit, params)
    return actions


def _ignores(
    context: Context, unit: Unit, there: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    for item in there:
        if (fix := ignoring(item.finding, unit.document.positions)) is not None:
            yield _mend(context, unit, item, fix)


def _mend(context: Context, unit: Unit, item: FileFinding, fix: Fix) -> types.CodeAction:
    shown = context.publication.diagnostics.one(item, unit.document, context.session.documents())
    return types.CodeAction(
        title=fix.title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        is_preferred=_preferred(context, fix),
        edit=text_edit(context.client, unit.document, fix.edits),
    )


def _meant(item: FileFinding, document: Document, params: types.CodeActionParams) -> bool:
    """Whether the request includes this finding.

    Neovim requests the place of the cursor, and sends the diagnostics of the whole line.
    """
    range_ = range_in(document, item.finding.range)
    named = any(
        diagnostic.code == item.finding.code and diagnostic.range == range_
        for diagnostic in params.context.diagnostics
    )
    return named or _touch(range_, params)


def _touch(range_: types.Range, params: types.CodeActionParams) -> bool:
    asked = params.range
    return _key(range_.start) <= _key(asked.end) and _key(asked.start) <= _key(range_.end)


def _key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _preferred(context: Context, fix: Fix) -> bool | None:
    return True if fix.preferred and context.client.code_action_preferred else None
