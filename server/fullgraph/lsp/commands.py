"""Handlers of the commands that clients execute by ``workspace/executeCommand``."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from fullgraph import __version__
from fullgraph.domain.findings import find_by_id
from fullgraph.domain.sandbox import layer_lines
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.fix_actions import fix_state_words
from fullgraph.lsp.server_capabilities import (
    ALLOW,
    ANALYZE,
    APPLY_MEASURED,
    CANCEL,
    DEBUG_INFORMATION,
    EXPLAIN_FIXES,
    MEASURE,
    REPRO,
    REPRO_ISSUE,
    RESTART_ENGINE,
    SHOW_BYTECODE,
    SHOW_EVENTS,
    SHOW_GRAPH,
    SHOW_GUARDS,
    SHOW_TIMINGS,
    TOGGLE_GUARDS,
    TOGGLE_UNTRACED,
)
from fullgraph.render.file_summary import finding_words, summary_title
from fullgraph.session.allowances import parse_allowance
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.file_summary import summarize_file
from fullgraph.session.listener import MessageLevel
from fullgraph_engine.protocol import to_plain
from fullgraph_engine.protocol.documents import DocumentKind


async def analyze_file(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Trace a file, or one function of it, without cached results, and answer when the traces have
    ended."""
    uri, target = _parse_place(arguments)
    # While this handler waits, the client may close the file or open it again.
    await context.session.permission.configured.wait()
    unit = _find_unit(context, uri)
    if unit is None:
        raise JsonRpcInvalidParams(
            "Name the file to trace by its URI; it must be open and in Python."
        )
    run = context.session.analyze(unit, (target,) if target else ())
    try:
        ending = await asyncio.shield(run)
    except asyncio.CancelledError:
        unit.withdraw_request(run)
        raise
    return {
        "generation": ending.generation,
        "completed": ending.completed,
        "reason": ending.reason,
        "reports": [to_plain(shown.report) for shown in unit.view.reports()],
        "findings": len(unit.view.findings()),
    }


async def cancel_runs(context: ServerContext, arguments: list[Any]) -> None:
    """Cancel the traces, reductions and measurements of a file; of all files if the arguments do
    not name one."""
    uri, _ = _parse_place(arguments)
    for unit in list(context.session.files.units.values()):
        if not uri or unit.document.uri == uri:
            unit.cancel()
    context.repros.jobs.cancel(uri)
    context.measures.cancel(uri)


async def restart_engine(context: ServerContext, arguments: list[Any]) -> None:
    """Search the interpreters for torch again, restart every engine process, and trace all open
    files again."""
    await context.session.restart_engines()


async def debug_information(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Return the state of the server for a bug report, as JSON data and as text."""
    session = context.session
    client = session.client
    facts: dict[str, Any] = {
        "fullgraph": __version__,
        "server": f"Python {platform.python_version()} on {platform.platform()}",
        "client": {
            "positionEncoding": client.encoding.value,
            "pullDiagnostics": client.pull_diagnostics,
            "workDoneProgress": client.work_done_progress,
        },
        "folders": list(session.workspace.folders),
        "status": session.engines.status.state.value,
        "sandbox": session.engines.status.sandbox or "not known yet",
        "engines": [
            {
                "interpreter": status.interpreter,
                "why": session.engines.pool.explain_choice(status.interpreter),
                "state": status.state.value,
                "message": status.message,
                "torch": status.torch,
                "python": status.python,
                "pid": status.pid,
                "degraded": [degradation.words for degradation in status.degraded],
                "sandbox": list(layer_lines(status.sandbox)),
            }
            for status in session.engines.pool.all_statuses()
        ],
        "files": [_file_facts(context, unit) for unit in session.files.units.values()],
    }
    return {"text": "\n".join(_format_facts(facts)), **facts}


async def toggle_guards(context: ServerContext, arguments: list[Any]) -> bool:
    """Show or hide all guards of a traced function as diagnostics; return whether they are shown
    now."""
    unit, target = _toggle_target(context, arguments, lambda unit: unit.view.guards_shown)
    return target in unit.view.guards_shown


async def toggle_untraced(context: ServerContext, arguments: list[Any]) -> bool:
    """Fade or restore the lines of a function that no trace executed; return whether they are faded
    now."""
    unit, target = _toggle_target(context, arguments, lambda unit: unit.view.untraced_shown)
    return target in unit.view.faded


def _toggle_target(
    context: ServerContext, arguments: list[Any], shown_of: Callable[[AnalysisUnit], set[str]]
) -> tuple[AnalysisUnit, str]:
    unit, target = _unit_and_target(context, arguments)
    target, shown = target or _only_target(unit), shown_of(unit)
    shown ^= {target}
    context.publication.publish_changes(unit, final=True)
    return unit, target


async def emit_repro(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Reduce a finding, or the failure of a backend, to a small script that reproduces it, and open
    the script."""
    unit, _ = _unit_and_target(context, arguments)
    return await context.repros.emit_script(unit, _argument_object(arguments))


async def emit_issue(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Return Markdown for an issue about a finding, or about the open repro script."""
    uri, _ = _parse_place(arguments)
    return await context.repros.emit_issue(uri, _argument_object(arguments))


async def explain_allowance(context: ServerContext, arguments: list[Any]) -> str:
    """Return a text that explains how to allow a refused access, for clients that cannot change
    their settings themselves."""
    entry = _argument_object(arguments).get("entry")
    try:
        allowance = parse_allowance(entry if isinstance(entry, str) else "")
    except ValueError as error:
        raise JsonRpcInvalidParams(f"The entry of `sandbox.allow` {error}.") from None
    words = (
        f'Add "{allowance}" to `sandbox.allow` in the initialization options of fullgraph in your '
        "editor's own configuration, and start the server again."
    )
    context.connection.show_message(MessageLevel.INFORMATION, words)
    return words


def _show_command(kind: DocumentKind) -> Callable[[ServerContext, list[Any]], Awaitable[Any]]:
    async def show(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
        """Open a document about a traced function; without a name, about the only function of the
        file.

        ``probe`` in the arguments selects the trace with the inputs of this number, counted from 0.
        Without it the document has the traces with all inputs.
        """
        unit, target = _unit_and_target(context, arguments)
        probe = _argument_object(arguments).get("probe")
        number = probe if isinstance(probe, int) and probe >= 0 else None
        return await context.documents.show_target(unit, kind, target or _only_target(unit), number)

    return show


async def show_timings(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Open a document that shows where the last trace of a file spent its time."""
    unit, _ = _unit_and_target(context, arguments)
    return await context.documents.show_timings(unit)


async def measure_targets(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Open a document with the run times of a function, or of all traced functions of a file.

    Each function is measured in eager mode, compiled, and compiled with the verified fixes.
    """
    unit, target = _unit_and_target(context, arguments)
    return await context.measures.show_measurements(unit, target)


async def apply_measured(context: ServerContext, arguments: list[Any]) -> dict[str, Any]:
    """Apply the fixes with which a function was measured, as one edit."""
    unit, target = _unit_and_target(context, arguments)
    return await context.measures.apply_fixes(unit, target)


async def explain_fixes(context: ServerContext, arguments: list[Any]) -> str:
    """Show in a message whether fixes of a finding are looked for, or why none was found; return
    the message. The argument has the ``uri`` of the file and the ``finding``'s id.
    """
    unit, _ = _unit_and_target(context, arguments)
    item = find_by_id(unit.view.findings(), _argument_object(arguments).get("finding"))
    words = fix_state_words(context, unit, item) if item is not None else ""
    words = words or "The finding has changed; select it again."
    context.connection.show_message(MessageLevel.INFORMATION, words)
    return words


def _only_target(unit: AnalysisUnit) -> str:
    names = list(dict.fromkeys(shown.report.name for shown in unit.view.reports()))
    if len(names) == 1:
        return names[0]
    known = f"one of {', '.join(names)}" if names else "no target of this file is known yet"
    raise JsonRpcInvalidParams(f"Name one target: {known}.")


def _file_facts(context: ServerContext, unit: AnalysisUnit) -> dict[str, Any]:
    settings = context.session.workspace.settings(unit.document)
    summary = summarize_file(context.session, unit)
    return {
        "uri": unit.document.uri,
        "generation": unit.document.generation,
        "project": str(context.session.workspace.project(unit.document)),
        "mode": settings.mode,
        "busy": unit.busy,
        "waiting": unit.waiting,
        "delay": unit.schedule.delay,
        "targets": [shown.report.name for shown in unit.view.reports()],
        "traced": summary_title(summary),
        "findings": finding_words(summary) or "unknown",
    }


def _format_facts(value: Mapping[str, Any], depth: int = 0) -> list[str]:
    indent = "  " * depth
    lines = []
    for key, item in value.items():
        if isinstance(item, Mapping):
            lines += [f"{indent}{key}:", *_format_facts(item, depth + 1)]
        elif isinstance(item, list) and item and isinstance(item[0], Mapping):
            for entry in item:
                lines += [f"{indent}{key}:", *_format_facts(entry, depth + 1)]
        else:
            shown = ", ".join(map(str, item)) if isinstance(item, list) else item
            lines.append(f"{indent}{key}: {shown}")
    return lines


def _find_unit(context: ServerContext, uri: str) -> AnalysisUnit | None:
    if uri:
        return context.find_unit(uri)
    units = list(context.session.files.units.values())
    return units[0] if len(units) == 1 else None


def _unit_and_target(context: ServerContext, arguments: list[Any]) -> tuple[AnalysisUnit, str]:
    """Return the unit (the open file with its analysis) and the function name, maybe empty, in a
    command's arguments.

    Raises:
        JsonRpcInvalidParams: The file is not open.
    """
    uri, target = _parse_place(arguments)
    unit = _find_unit(context, uri)
    if unit is None:
        raise JsonRpcInvalidParams("Name the file by its URI; it must be open and in Python.")
    return unit, target


def _argument_object(arguments: list[Any]) -> Mapping[str, Any]:
    first = arguments[0] if arguments else None
    return first if isinstance(first, Mapping) else {}


def _parse_place(arguments: list[Any]) -> tuple[str, str]:
    """Return (URI, function name) from the arguments of a command: two strings, or one object as
    code lenses send it."""
    first = arguments[0] if arguments else ""
    if isinstance(first, Mapping):
        uri, target = first.get("uri", ""), first.get("target", "")
    else:
        uri = first if first is not None else ""
        target = arguments[1] if len(arguments) > 1 and arguments[1] is not None else ""
    if not isinstance(uri, str) or not isinstance(target, str):
        raise JsonRpcInvalidParams("The arguments are a URI and, optionally, the name of a target.")
    return uri, target


COMMANDS_BY_NAME: Mapping[str, Callable[[ServerContext, list[Any]], Awaitable[Any]]] = {
    ANALYZE: analyze_file,
    CANCEL: cancel_runs,
    RESTART_ENGINE: restart_engine,
    DEBUG_INFORMATION: debug_information,
    SHOW_GRAPH: _show_command("graph"),
    SHOW_GUARDS: _show_command("guards"),
    SHOW_EVENTS: _show_command("events"),
    SHOW_BYTECODE: _show_command("bytecode"),
    SHOW_TIMINGS: show_timings,
    MEASURE: measure_targets,
    APPLY_MEASURED: apply_measured,
    TOGGLE_GUARDS: toggle_guards,
    TOGGLE_UNTRACED: toggle_untraced,
    REPRO: emit_repro,
    REPRO_ISSUE: emit_issue,
    ALLOW: explain_allowance,
    EXPLAIN_FIXES: explain_fixes,
}
