"""``textDocument/codeLens``: the result of each trace, its guards, and a command to measure graph
breaks.

A lens is shown above the comment with the inputs of its trace, else at the name of the function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from fullgraph.domain.phrases import SEPARATOR, amount
from fullgraph.domain.reports import ShownReport
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import range_in
from fullgraph.lsp.server_capabilities import ANALYZE, MEASURE, SHOW_GUARDS
from fullgraph.render.forecasts import forecast_clause
from fullgraph.render.summary import lens_title, lens_tooltip
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.probe_runs import comments_of_runs
from fullgraph_engine.protocol import Range, TargetReport, to_plain

METHOD = types.TEXT_DOCUMENT_CODE_LENS

_SHOW_TARGET = "fullgraph.showTarget"
"""Command of clients that can display the trace of a function; in other clients, the lens traces
the function again."""

_ICONS = {"traced": "git-compare", "no-probe": "add", "skipped": "play"}
_FAILED = "error"
_GUARDS = "shield"
_MEASURE = "watch"


def handle(context: ServerContext, params: types.CodeLensParams) -> list[types.CodeLens]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None or not context.session.workspace.settings(unit.document).code_lens_enabled:
        return []
    runs: dict[str, list[ShownReport]] = defaultdict(list)
    for shown in unit.view.reports():
        runs[shown.report.name].append(shown)
    return [
        lens for target_runs in runs.values() for lens in _target_lenses(context, unit, target_runs)
    ]


def _target_lenses(
    context: ServerContext, unit: AnalysisUnit, runs: list[ShownReport]
) -> Iterator[types.CodeLens]:
    command = _SHOW_TARGET if _SHOW_TARGET in context.client.commands else ANALYZE
    comments = comments_of_runs(unit.document.positions, runs)

    def with_icon(icon: str, title: str) -> str:
        return f"$({icon}) {title}" if context.client.icons else title

    for shown in runs:
        report = shown.report
        comment = comments.get(report.probe_number)
        place = report.range if comment is None else comment.range(unit.document.positions)
        range_ = range_in(unit.document, place)
        argument = _lens_argument(unit, shown)
        icon = _ICONS.get(report.status, _FAILED)
        words = _lens_words(unit, shown, with_probe=comment is None)
        title = with_icon(icon, words)
        tooltip = lens_tooltip(report) or None
        # The lens of a skipped function traces it, because there is not a trace to show yet.
        opens = ANALYZE if report.status == "skipped" else command
        shows = types.Command(title, opens, tooltip=tooltip, arguments=[argument])
        yield types.CodeLens(range_, shows)
        if (site := _site_apart(unit, report)) is not None:
            named_title = with_icon(icon, f"{report.name}: {words}")
            named = types.Command(named_title, command, tooltip, [argument])
            yield types.CodeLens(range_in(unit.document, site), named)
        about = {"uri": argument["uri"], "target": argument["target"]}
        if report.guards and report.status != "no-probe":
            run = {"probe": report.probe_number} if len(runs) > 1 else {}
            title = with_icon(_GUARDS, amount(report.guards, "guard"))
            shows = types.Command(title, SHOW_GUARDS, arguments=[{**about, **run}])
            yield types.CodeLens(range_, shows)
        if report.status == "traced" and report.breaks and report is runs[0].report:
            title = with_icon(_MEASURE, "measure")
            yield types.CodeLens(range_, types.Command(title, MEASURE, arguments=[about]))


def _site_apart(unit: AnalysisUnit, report: TargetReport) -> Range | None:
    """Return the range of the torch.compile call for a function, if it is apart from the function's
    definition; else None."""
    region = report.region
    if region is None or region.site.path != unit.document.name:
        return None
    site = region.site.range
    near = abs(site.start.line - report.range.start.line) <= 1
    return None if near else site


def _lens_words(unit: AnalysisUnit, shown: ShownReport, *, with_probe: bool) -> str:
    title = lens_title(shown.report, with_probe=with_probe)
    forecast = unit.view.find_forecast(shown.report.name)
    if forecast is not None and (words := forecast_clause(forecast.rows)):
        title += f"{SEPARATOR}{words}"
    if unit.view.values_left_out(shown.report.name):
        title += " · not all values are shown"
    if shown.current:
        return title
    if unit.traces.from_cache:
        return f"{title} · from the cache"
    if unit.busy or unit.waiting:
        return f"{title} · tracing"
    return f"{title} · before the last edit"


def _lens_argument(unit: AnalysisUnit, shown: ShownReport) -> dict[str, Any]:
    report = to_plain(shown.report)
    # The client cannot use byte offsets, so the argument has positions in its own encoding.
    del report["range"]
    return {
        "uri": unit.document.uri,
        "target": shown.report.name,
        "probe": shown.report.probe_number,
        "version": unit.document.version,
        "current": shown.current,
        "report": report,
    }
