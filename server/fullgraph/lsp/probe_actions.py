"""Code actions that write inputs, which the engine found by trying, into the file as a probe
comment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.lsp.places import range_in
from fullgraph.probes.comments import comments_of
from fullgraph_engine.protocol import Fix, Position, Range, TextEdit

if TYPE_CHECKING:
    from fullgraph.session.analysis_unit import AnalysisUnit
    from fullgraph.session.documents import Document


def probe_fixes(unit: AnalysisUnit, params: types.CodeActionParams) -> Iterator[Fix]:
    """Yield edits that write the inputs of a function into a comment above it, for a request on the
    line of its name."""
    for shown in unit.view.reports():
        probe, range_ = shown.report.probe, shown.report.range
        line = range_in(unit.document, range_).start.line
        if probe is None or not probe.comment or line != params.range.start.line:
            continue
        if probe.origin == "comment":
            # If the inputs in the probe comment are wrong, another code action offers inputs that
            # work.
            continue
        edit = _complete_comment(unit.document, line, probe.comment)
        if edit is None:
            edit = _insert_comment(unit.document, line, probe.comment)
        yield Fix(f"Write the probe: {probe.comment}", (edit,))


def _complete_comment(document: Document, line: int, probe: str) -> TextEdit | None:
    """Return an edit that adds inputs to a probe comment that only has constructor arguments; None
    for any other comment."""
    for comment in comments_of(document.positions, line):
        if comment.text.startswith("init(") and "#" not in comment.text:
            return TextEdit(comment.range(document.positions), probe)
    return None


def _insert_comment(document: Document, line: int, probe: str) -> TextEdit:
    """Return an edit that inserts a probe comment (the inputs to trace with) above the decorators
    of a definition."""
    positions = document.positions
    first = line
    while positions.line(first - 1).lstrip().startswith("@"):
        first -= 1
    head = positions.line(first)
    indent = head[: len(head) - len(head.lstrip())]
    newline = "\r\n" if document.text[: positions.start(first + 1)].endswith("\r\n") else "\n"
    start = Position(first, 0)
    return TextEdit(Range(start, start), f"{indent}# fullgraph: {probe}{newline}")
