"""Completion inside probe comments, which define the inputs that a function is traced with."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.probes import ProbeComment, comment_on, complete_probe, scope_at
from fullgraph.probes.completion import ProbeItemKind
from fullgraph.session.documents import Document

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
