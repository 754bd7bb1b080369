"""Code actions that allow an access (for example to a file) that the sandbox refused to traced
code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import ALLOW, CLIENT_ALLOW
from fullgraph.session.allowances import parse_allowance
from fullgraph.session.analysis_unit import AnalysisUnit


def allow_actions(
    context: ServerContext, unit: AnalysisUnit, findings: Sequence[FileFinding]
) -> Iterator[types.CodeAction]:
    """Yield one code action for each refused access among ``findings``; it adds an entry to the
    user's setting ``sandbox.allow``."""
    command = CLIENT_ALLOW if CLIENT_ALLOW in context.client.commands else ALLOW
    diagnostics = context.publication.diagnostics
    by_entry: dict[str, list[FileFinding]] = {}
    for item in findings:
        allowance = item.finding.allowance
        if allowance is not None and _is_valid_entry(str(allowance)):
            by_entry.setdefault(str(allowance), []).append(item)
    for entry, items in by_entry.items():
        title = f"Allow {entry} (user settings)"
        open_documents = context.session.files.documents()
        yield types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[
                diagnostics.for_finding(item, unit.document, open_documents) for item in items
            ],
            command=types.Command(title, command, arguments=[{"entry": entry}]),
        )


def _is_valid_entry(text: str) -> bool:
    """Whether ``text`` is a valid entry of the setting ``sandbox.allow``; traced code may have
    raised an error with any text."""
    try:
        return text.isprintable() and str(parse_allowance(text)) == text
    except ValueError:
        return False
