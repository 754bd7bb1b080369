"""Code actions that let code do what the sandbox has refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import Context
from fullgraph.lsp.server_capabilities import ALLOW, CLIENT_ALLOW
from fullgraph.session.allowances import parsed
from fullgraph.session.analysis_unit import Unit


def allow_actions(
    context: Context, unit: Unit, there: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """One for each entry of the setting; it is the user's own setting, for all workspaces."""
    command = CLIENT_ALLOW if CLIENT_ALLOW in context.client.commands else ALLOW
    diagnostics = context.publication.diagnostics
    by_entry: dict[str, list[FileFinding]] = {}
    for item in there:
        allowance = item.finding.allowance
        if allowance is not None and _is_entry(str(allowance)):
            by_entry.setdefault(str(allowance), []).append(item)
    for entry, items in by_entry.items():
        title = f"Allow {entry} (user settings)"
        open_ = context.session.documents()
        yield types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostics.one(item, unit.document, open_) for item in items],
            command=types.Command(title, command, arguments=[{"entry": entry}]),
        )


def _is_entry(text: str) -> bool:
    """Whether the setting would take it: code that was traced may have made it up."""
    try:
        return text.isprintable() and str(parsed(text)) == text
    except ValueError:
        return False
