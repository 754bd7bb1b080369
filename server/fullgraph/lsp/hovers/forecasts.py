"""What further calls of the target under the cursor recompile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fullgraph.lsp.hovers.section import Section
from fullgraph.render import forecasts, shapes

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server
    from fullgraph.session.analysis_unit import Unit


def section(server: Server, unit: Unit, offset: int) -> Section | None:
    positions = unit.document.positions
    for shown in unit.reports():
        range_, name = shown.report.range, shown.report.name
        start, end = positions.offset(range_.start), positions.offset(range_.end)
        forecast = unit.forecast(name) if start <= offset <= end else None
        if forecast is not None and (forecast.rows or forecast.notes):
            fresh = name in unit.results.forecasts.fresh
            page = forecasts.page(name, forecast.rows, forecast.notes, fresh=fresh)
            return Section(page, shapes.plain(page), start, end)
    return None
