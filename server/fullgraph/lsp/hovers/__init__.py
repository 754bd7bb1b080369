"""The sections of a hover, one module for each kind of information.

Each module has ``section(context, unit, offset)``, which returns None if it has nothing to show.
The sections are shown in the order of ``_PARTS``.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers import breaks, findings, forecasts, guards, operators, probes, shapes
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.session.analysis_unit import AnalysisUnit

_PARTS = (
    findings.section,
    breaks.section,
    probes.section,
    shapes.section,
    forecasts.section,
    guards.section,
    operators.section,
)


def hover_sections(
    context: ServerContext, unit: AnalysisUnit, offset: int
) -> Iterator[HoverSection]:
    """Yield the hover sections with information about an offset, counted in code points of the
    text."""
    for part in _PARTS:
        section = part(context, unit, offset)
        if section is not None:
            yield section
