"""Code actions that open a document (graphs, guards, events, bytecode) about a traced function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.lsp.places import range_in
from fullgraph.lsp.server_capabilities import (
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
from fullgraph_engine.protocol.documents import DocumentKind

if TYPE_CHECKING:
    from fullgraph.session.analysis_unit import AnalysisUnit

_COMMANDS: dict[DocumentKind, str] = {
    "graph": SHOW_GRAPH,
    "guards": SHOW_GUARDS,
    "events": SHOW_EVENTS,
    "bytecode": SHOW_BYTECODE,
}


def show_actions(unit: AnalysisUnit, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    """Yield actions that open documents about a function, for a request on the line of the
    function's name.

    If the request names their kind, the actions are also offered on the lines below.
    """
    wanted = params.context.only
    if not is_requested(SHOW_KIND, wanted):
        return
    target = target_at(unit, params.range.start.line, anywhere=wanted is not None)
    if target is None:
        return
    place = {"uri": unit.document.uri, "target": target}

    def create_action(title: str, kind: str, command: str) -> types.CodeAction:
        return types.CodeAction(
            title=title,
            kind=f"{SHOW_KIND}.{kind}",
            command=types.Command(title, command, arguments=[place]),
        )

    for kind, command in _COMMANDS.items():
        yield create_action(f"Show {TITLES[kind]} of {target}", kind, command)
    if unit.results.target_details(target).guards is not None:
        verb = "Hide" if target in unit.view.guards_shown else "Show"
        title = f"{verb} all guards of {target} as diagnostics"
        yield create_action(title, "guardDiagnostics", TOGGLE_GUARDS)
    if any(shown.report.untraced for shown in unit.view.reports() if shown.report.name == target):
        verb = "Stop fading" if target in unit.view.faded else "Fade"
        title = f"{verb} lines of {target} that were never traced"
        yield create_action(title, "untracedLines", TOGGLE_UNTRACED)


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
