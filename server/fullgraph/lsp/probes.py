"""Code actions and completion for probe comments, the inputs to trace a function with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fullgraph.lsp.places import range_in
from fullgraph.probes import ProbeComment, comment_on, complete_probe, scope_at
from fullgraph.probes.comments import comments_of
from fullgraph.probes.completion import ProbeItemKind
from fullgraph.session.documents import Document
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


TRIGGERS = frozenset(" [@(")
"""Characters that trigger completion only inside comments with example inputs (probe comments)."""

_KINDS: dict[ProbeItemKind, types.CompletionItemKind] = {
    "dtype": types.CompletionItemKind.Constant,
    "size": types.CompletionItemKind.Unit,
    "device": types.CompletionItemKind.EnumMember,
    "parameter": types.CompletionItemKind.Variable,
    "class": types.CompletionItemKind.Class,
    "method": types.CompletionItemKind.Method,
    "constant": types.CompletionItemKind.Keyword,
}


def probe_completion(document: Document, line: int, character: int) -> dict[str, Any] | None:
    """Return the completions at a position as an LSP list; None outside of probe comments."""
    positions = document.positions
    comment = comment_on(positions, line)
    column = document.offset_at(line, character) - positions.start(line)
    if comment is None or column < comment.start:
        return None
    # Include trailing blanks of the comment, because the cursor may be behind them.
    comment_with_blanks = ProbeComment(line, comment.start, positions.line(line)[comment.start :])
    offset = column - comment.start
    found = complete_probe(comment_with_blanks, offset, scope_at(document.text, positions, line))
    start = positions.start(line) + comment.start + found.start
    begin, end = document.position_at(start), (line, character)
    items = []
    for number, candidate in enumerate(found.items):
        edit = {
            "range": {
                "start": {"line": begin[0], "character": begin[1]},
                "end": {"line": end[0], "character": end[1]},
            },
            "newText": candidate.label,
        }
        items.append(
            {
                "label": candidate.label,
                "kind": _KINDS[candidate.kind].value,
                "sortText": f"{number:04}",
                "textEdit": edit,
                **({"detail": candidate.detail} if candidate.detail else {}),
            }
        )
    return {"isIncomplete": False, "items": items}
