"""Code actions that keep a probe that was found by trying."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.lsp.places import range_in
from fullgraph_engine.protocol import Fix, Position, Range, TextEdit

if TYPE_CHECKING:
    from fullgraph.session.analysis_unit import Unit


def found_probes(unit: Unit, params: types.CodeActionParams) -> Iterator[Fix]:
    """On the line of a target's name: write its probe above it."""
    for shown in unit.reports():
        probe, range_ = shown.report.probe, shown.report.range
        line = range_in(unit.document, range_).start.line
        if probe is None or not probe.comment or line != params.range.start.line:
            continue
        positions = unit.document.positions
        first = range_.start.line
        while positions.line(first - 1).lstrip().startswith("@"):
            first -= 1
        head = positions.line(first)
        indent = head[: len(head) - len(head.lstrip())]
        behind = positions.start(first + 1)
        newline = "\r\n" if unit.document.text[:behind].endswith("\r\n") else "\n"
        start = Position(first, 0)
        text = f"{indent}# fullgraph: {probe.comment}{newline}"
        yield Fix(f"Write the probe: {probe.comment}", (TextEdit(Range(start, start), text),))
