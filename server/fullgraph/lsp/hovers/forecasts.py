"""Hover section with the further calls that will recompile the function under the cursor."""

from __future__ import annotations

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.render import forecasts, shapes
from fullgraph.session.analysis_unit import AnalysisUnit


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return a section about the calls that will recompile the function whose name is at ``offset``
    (code points); None without a forecast."""
    positions = unit.document.positions
    for shown in unit.view.reports():
        range_, name = shown.report.range, shown.report.name
        start, end = positions.offset(range_.start), positions.offset(range_.end)
        forecast = unit.view.find_forecast(name) if start <= offset <= end else None
        if forecast is not None and (forecast.rows or forecast.notes):
            fresh = name in unit.results.forecasts.fresh
            page = forecasts.forecast_page(name, forecast.rows, forecast.notes, fresh=fresh)
            return HoverSection(page, shapes.strip_markdown(page), start, end)
    return None
