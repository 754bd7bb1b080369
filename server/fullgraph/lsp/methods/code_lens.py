"""``textDocument/codeLens``: the result of each trace, its guards, and a command that makes the
function faster.

A lens is shown above the comment with the inputs of its trace, else at the name of the function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from fullgraph.domain.phrases import SEPARATOR, amount
from fullgraph.domain.reports import ShownReport, reports_by_target
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.fix_actions import find_improvement
from fullgraph.lsp.places import range_in
from fullgraph.lsp.server_capabilities import ANALYZE, APPLY_MEASURED, MEASURE, SHOW_GUARDS
from fullgraph.render.file_summary import obstacle_words
from fullgraph.render.forecasts import forecast_clause
from fullgraph.render.measured import speed_verdict
from fullgraph.render.summary import ShownBreaks, cut_message, lens_title, lens_tooltip
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.file_summary import summarize_file
from fullgraph.session.probe_runs import comments_of_runs
from fullgraph_engine.protocol import Finding, Range, TargetReport, to_plain
from fullgraph_engine.protocol.evidence import BreakEvidence

METHOD = types.TEXT_DOCUMENT_CODE_LENS

_SHOW_TARGET = "fullgraph.showTarget"
"""Command of clients that can display the trace of a function; in other clients, the lens traces
the function again."""

_EXPLAIN_FILE = "fullgraph.explainFile"
"""Command of clients that can display what was traced in a file."""

_MOST_OBSTACLE = 100
"""Maximum number of characters of the lens that says why nothing of a file was traced."""

_ICONS = {"traced": "git-compare", "no-probe": "add", "skipped": "play"}
_FAILED = "error"
_GUARDS = "shield"
_MEASURE = "rocket"
_APPLY = "wand"
_UNTRACED = "circle-slash"


def handle(context: ServerContext, params: types.CodeLensParams) -> list[types.CodeLens]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None or not context.session.workspace.settings(unit.document).code_lens_enabled:
        return []
    runs = reports_by_target(unit.view.reports())
    if not runs:
        return list(_file_lens(context, unit))
    breaks = _BreakLines(unit)
    return [
        lens
        for target_runs in runs.values()
        for lens in _target_lenses(context, unit, target_runs, breaks)
    ]


def _file_lens(context: ServerContext, unit: AnalysisUnit) -> Iterator[types.CodeLens]:
    """Yield a lens on the first line if nothing of the file was traced, because the file would look
    free of problems."""
    obstacle = summarize_file(context.session, unit).obstacle
    if obstacle is None or obstacle.in_text:
        return
    words = obstacle_words(obstacle).rstrip(".")
    brief = cut_message(words, _MOST_OBSTACLE)
    title = with_icon(context, _UNTRACED, brief)
    tooltip = "\n".join(filter(None, (words if brief != words else "", obstacle.next_step)))
    explains = not obstacle.by_command and _EXPLAIN_FILE in context.client.commands
    command = _EXPLAIN_FILE if explains else ANALYZE
    start = types.Position(0, 0)
    argument = {"uri": unit.document.uri, "target": ""}
    yield types.CodeLens(
        types.Range(start, start),
        types.Command(title, command, tooltip=tooltip or None, arguments=[argument]),
    )


class _BreakLines:
    """The lines on which the editor shows graph breaks, for each run."""

    def __init__(self, unit: AnalysisUnit) -> None:
        self._findings: dict[str, list[tuple[int, Finding]]] = defaultdict(list)
        """Graph breaks with their lines, by the name of the traced function."""
        for item in unit.view.findings():
            if isinstance(item.finding.evidence, BreakEvidence):
                line = item.finding.range.start.line
                for one in item.run_findings:
                    self._findings[one.target].append((line, one))

    def count(self, report: TargetReport) -> ShownBreaks:
        """Return the number of lines with graph breaks of one run."""
        lines, others = set[int](), set[int]()
        for line, one in self._findings.get(report.name, ()):
            if one.run is None or one.run.probe == report.probe_number:
                (lines if one.path is None else others).add(line)
        return ShownBreaks(len(lines), len(others - lines))


def with_icon(context: ServerContext, icon: str, title: str) -> str:
    """Return the title of a lens, with an icon if the client displays icons."""
    return f"$({icon}) {title}" if context.client.icons else title


def _target_lenses(
    context: ServerContext, unit: AnalysisUnit, runs: list[ShownReport], breaks: _BreakLines
) -> Iterator[types.CodeLens]:
    command = _SHOW_TARGET if _SHOW_TARGET in context.client.commands else ANALYZE
    comments = comments_of_runs(unit.document.positions, runs)

    for shown in runs:
        report = shown.report
        comment = comments.get(report.probe_number)
        place = report.range if comment is None else comment.range(unit.document.positions)
        range_ = range_in(unit.document, place)
        argument = _lens_argument(unit, shown)
        icon = _ICONS.get(report.status, _FAILED)
        shown_breaks = breaks.count(report)
        words = _lens_words(unit, shown, shown_breaks, with_probe=comment is None)
        title = with_icon(context, icon, words)
        tooltip = lens_tooltip(report, shown=shown_breaks) or None
        # The lens of a skipped function traces it, because there is not a trace to show yet.
        opens = ANALYZE if report.status == "skipped" else command
        shows = types.Command(title, opens, tooltip=tooltip, arguments=[argument])
        yield types.CodeLens(range_, shows)
        if (site := _site_apart(unit, report)) is not None:
            named_title = with_icon(context, icon, f"{report.name}: {words}")
            named = types.Command(named_title, command, tooltip, [argument])
            yield types.CodeLens(range_in(unit.document, site), named)
        about = {"uri": argument["uri"], "target": argument["target"]}
        if report.guards and report.status != "no-probe":
            run = {"probe": report.probe_number} if len(runs) > 1 else {}
            title = with_icon(context, _GUARDS, amount(report.guards, "guard"))
            shows = types.Command(title, SHOW_GUARDS, arguments=[{**about, **run}])
            yield types.CodeLens(range_, shows)
        is_measurable = report.status == "traced" and not report.needs_program
        if is_measurable and report.breaks and report is runs[0].report:
            timed = find_improvement(context, unit, report.name)
            if timed is not None:
                icon, title, offered = _APPLY, f"apply: {speed_verdict(timed)}", APPLY_MEASURED
            else:
                icon, title, offered = _MEASURE, "make faster", MEASURE
            offers = types.Command(with_icon(context, icon, title), offered, arguments=[about])
            yield types.CodeLens(range_, offers)


def _site_apart(unit: AnalysisUnit, report: TargetReport) -> Range | None:
    """Return the range of the ``torch.compile`` call for a function; None if the call is at most
    one line from the function's definition, or in another file."""
    region = report.region
    if region is None or region.site.path != unit.document.name:
        return None
    site = region.site.range
    near = abs(site.start.line - report.range.start.line) <= 1
    return None if near else site


def _lens_words(
    unit: AnalysisUnit, shown: ShownReport, breaks: ShownBreaks, *, with_probe: bool
) -> str:
    title = lens_title(shown.report, with_probe=with_probe, shown=breaks)
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
