"""Code actions that execute a command of the server: allow an access, reduce a finding to a repro,
open a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import range_in
from fullgraph.lsp.repros import command_argument
from fullgraph.lsp.server_capabilities import (
    ALLOW,
    CLIENT_ALLOW,
    COPY_ISSUE,
    REDUCE_KIND,
    REPRO,
    REPRO_ISSUE,
    REPRO_KIND,
    SHOW_BYTECODE,
    SHOW_EVENTS,
    SHOW_GRAPH,
    SHOW_GUARDS,
    SHOW_KIND,
    TOGGLE_GUARDS,
    TOGGLE_UNTRACED,
    is_requested,
)
from fullgraph.render.documents import TITLES
from fullgraph.session.allowances import parse_allowance
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.repro import is_reproducible
from fullgraph_engine.protocol.documents import DocumentKind

_SHOW_COMMANDS: dict[DocumentKind, str] = {
    "graph": SHOW_GRAPH,
    "guards": SHOW_GUARDS,
    "events": SHOW_EVENTS,
    "bytecode": SHOW_BYTECODE,
}


def command_action(
    title: str,
    kind: str,
    command: str,
    argument: dict[str, Any],
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    """Return a code action that executes a command with one argument."""
    return types.CodeAction(
        title=title,
        kind=kind,
        diagnostics=diagnostics,
        command=types.Command(title, command, arguments=[argument]),
    )


def allow_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield one code action for each access among ``findings`` that the sandbox refused to traced
    code; it adds an entry to the user's setting ``sandbox.allow``."""
    command = CLIENT_ALLOW if CLIENT_ALLOW in context.client.commands else ALLOW
    diagnostics: dict[str, list[types.Diagnostic]] = {}
    for item in findings:
        allowance = item.finding.allowance
        if allowance is not None and _is_valid_entry(str(allowance)):
            shown = context.publication.diagnostics.for_finding(item, unit.document)
            diagnostics.setdefault(str(allowance), []).append(shown)
    for entry, refused in diagnostics.items():
        title = f"Allow {entry} (user settings)"
        yield command_action(
            title, types.CodeActionKind.QuickFix, command, {"entry": entry}, refused
        )


def _is_valid_entry(text: str) -> bool:
    """Whether ``text`` is a valid entry of the setting ``sandbox.allow``; traced code may have
    raised an error with any text."""
    try:
        return text.isprintable() and str(parse_allowance(text)) == text
    except ValueError:
        return False


def repro_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield actions that reduce findings to a small script, and, if the file ``unit`` is such a
    script, actions on it.

    ``findings`` are the findings in the requested range. The reduction starts when the user chooses
    an action.
    """
    copy = COPY_ISSUE if COPY_ISSUE in context.client.commands else REPRO_ISSUE
    if context.repros.jobs.find_at_path(unit.document.path) is not None:
        yield command_action("Copy as issue", REPRO_KIND, copy, {"uri": unit.document.uri})
    items = [item for item in findings if is_reproducible(item.finding.code)]
    for item in items:
        suffix = f" of {item.finding.code}" if len(items) > 1 else ""
        argument = command_argument(unit, item)
        shown = [context.publication.diagnostics.for_finding(item, unit.document)]
        for title, command in (
            (f"Create minimal repro{suffix}", REPRO),
            (f"Copy minimal repro{suffix} as issue", copy),
        ):
            yield command_action(title, REPRO_KIND, command, argument, shown)


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
        yield command_action(title, REDUCE_KIND, REPRO, argument)


def show_actions(unit: AnalysisUnit, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    """Yield actions that open documents (graphs, guards, events, bytecode) about a function, for a
    request on the line of the function's name.

    If the request names their kind, the actions are also offered on the lines below.
    """
    wanted = params.context.only
    if not is_requested(SHOW_KIND, wanted):
        return
    target = target_at(unit, params.range.start.line, anywhere=wanted is not None)
    if target is None:
        return
    argument = {"uri": unit.document.uri, "target": target}
    for kind, command in _SHOW_COMMANDS.items():
        title = f"Show {TITLES[kind]} of {target}"
        yield command_action(title, f"{SHOW_KIND}.{kind}", command, argument)
    if unit.results.target_details(target).guards is not None:
        verb = "Hide" if target in unit.view.guards_shown else "Show"
        title = f"{verb} all guards of {target} as diagnostics"
        yield command_action(title, f"{SHOW_KIND}.guardDiagnostics", TOGGLE_GUARDS, argument)
    if any(shown.report.untraced for shown in unit.view.reports() if shown.report.name == target):
        verb = "Stop fading" if target in unit.view.faded else "Fade"
        title = f"{verb} lines of {target} that were never traced"
        yield command_action(title, f"{SHOW_KIND}.untracedLines", TOGGLE_UNTRACED, argument)


def target_at(unit: AnalysisUnit, line: int, *, anywhere: bool) -> str | None:
    """Return the name of the traced function whose name is on a line. With ``anywhere``, a line
    without such a name selects the nearest function that starts above it."""
    above = None
    for shown in unit.view.reports():
        report = shown.report
        first = range_in(unit.document, report.range).start.line
        if report.status == "no-probe":
            continue
        if first == line:
            return report.name
        if anywhere and first < line:
            above = report.name
    return above
