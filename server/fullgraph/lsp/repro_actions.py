"""Code actions that reduce a finding to a repro script. The reduction starts when the user chooses
one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.repros import command_argument
from fullgraph.lsp.server_capabilities import (
    COPY_ISSUE,
    REDUCE_KIND,
    REPRO,
    REPRO_ISSUE,
    REPRO_KIND,
)
from fullgraph.lsp.show_actions import target_at
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.repro import is_reproducible


def repro_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield actions that reduce findings to a small script, and, if the file ``unit`` is such a
    script, actions on it.

    ``findings`` are the findings in the requested range.
    """
    copy = COPY_ISSUE if COPY_ISSUE in context.client.commands else REPRO_ISSUE
    if context.repros.jobs.find_at_path(unit.document.path) is not None:
        yield _repro_action("Copy as issue", copy, {"uri": unit.document.uri})
    items = [item for item in findings if is_reproducible(item.finding.code)]
    diagnostics = context.publication.diagnostics
    for item in items:
        suffix = f" of {item.finding.code}" if len(items) > 1 else ""
        argument = command_argument(unit, item)
        shown = [diagnostics.for_finding(item, unit.document, context.session.files.documents())]
        yield _repro_action(f"Create minimal repro{suffix}", REPRO, argument, shown)
        yield _repro_action(f"Copy minimal repro{suffix} as issue", copy, argument, shown)


def reduce_actions(
    unit: AnalysisUnit, params: types.CodeActionParams
) -> Iterator[types.CodeAction]:
    """Yield an action that compiles a function with Inductor and reduces a failure to a script.

    It is offered on the line of the function's name.
    """
    line, anywhere = params.range.start.line, params.context.only is not None
    target = target_at(unit, line, anywhere=anywhere)
    if target is not None:
        argument = {"uri": unit.document.uri, "target": target, "backend": "inductor"}
        title = f"Compile {target} with inductor and minimize a failure"
        command = types.Command(title, REPRO, arguments=[argument])
        yield types.CodeAction(title=title, kind=REDUCE_KIND, command=command)


def _repro_action(
    title: str,
    command: str,
    argument: dict[str, Any],
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    return types.CodeAction(
        title=title,
        kind=REPRO_KIND,
        diagnostics=diagnostics,
        command=types.Command(title, command, arguments=[argument]),
    )
