"""``textDocument/codeLens``: a line on each target, at its name, and the way to its guards."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.domain.phrases import SEPARATOR, amount
from fullgraph.lsp.context import Context
from fullgraph.lsp.places import range_in
from fullgraph.lsp.server_capabilities import ANALYZE, SHOW_GUARDS
from fullgraph.render.forecasts import brief
from fullgraph.render.summary import lens_title, lens_tooltip
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.results import ShownReport
from fullgraph_engine.protocol import to_plain

METHOD = types.TEXT_DOCUMENT_CODE_LENS

_SHOW_TARGET = "fullgraph.showTarget"
"""A command of clients that have somewhere to show a target; others trace it again."""


def handle(context: Context, params: types.CodeLensParams) -> list[types.CodeLens]:
    unit = context.unit(params.text_document.uri)
    if unit is None:
        return []
    command = _SHOW_TARGET if _SHOW_TARGET in context.client.commands else ANALYZE
    lenses = []
    for shown in unit.reports():
        range_ = range_in(unit.document, shown.report.range)
        argument = _argument(unit, shown)
        lenses.append(
            types.CodeLens(
                range_,
                types.Command(
                    _title(unit, shown),
                    command,
                    tooltip=lens_tooltip(shown.report) or None,
                    arguments=[argument],
                ),
            )
        )
        if shown.report.guards and shown.report.status != "no-probe":
            place = {"uri": argument["uri"], "target": argument["target"]}
            title = amount(shown.report.guards, "guard")
            guards = types.Command(title, SHOW_GUARDS, arguments=[place])
            lenses.append(types.CodeLens(range_, guards))
    return lenses


def _title(unit: Unit, shown: ShownReport) -> str:
    title = lens_title(shown.report)
    forecast = unit.forecast(shown.report.name)
    if forecast is not None and (words := brief(forecast.rows)):
        title += f"{SEPARATOR}{words}"
    if unit.values_left_out(shown.report.name):
        title += " · not all values are shown"
    if shown.current:
        return title
    if unit.busy or unit.waiting:
        return f"{title} · tracing"
    return f"{title} · before the last edit"


def _argument(unit: Unit, shown: ShownReport) -> dict[str, Any]:
    report = to_plain(shown.report)
    # Bytes mean nothing to a client.
    del report["range"]
    return {
        "uri": unit.document.uri,
        "target": shown.report.name,
        "run": shown.report.probe_number,
        "version": unit.document.version,
        "current": shown.current,
        "report": report,
    }
