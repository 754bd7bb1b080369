"""What a hover is composed of: each module here knows one thing about a place of a text.

A module has ``section(context, unit, offset)``, which is None where it knows nothing. The order
here is that of the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.lsp.context import Context
from fullgraph.lsp.hovers import breaks, findings, forecasts, guards, operators, probes, shapes
from fullgraph.lsp.hovers.section import Section
from fullgraph.session.analysis_unit import Unit

_PARTS = (
    findings.section,
    breaks.section,
    probes.section,
    shapes.section,
    forecasts.section,
    guards.section,
    operators.section,
)


def sections(context: Context, unit: Unit, offset: int) -> Iterator[Section]:
    """What is known at an offset."""
    for part in _PARTS:
        section = part(context, unit, offset)
        if section is not None:
            yield section
