"""``textDocument/diagnostic``: the currently known findings of a file.

The answer does not wait for a trace. When a trace reports new findings, the server asks the client
to pull again.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.TEXT_DOCUMENT_DIAGNOSTIC


def handle(context: ServerContext, params: types.DocumentDiagnosticParams) -> Any:
    if not context.client.pull_diagnostics:
        # The server pushes findings to clients of this kind; returning them here would show each
        # finding twice.
        return {"kind": "full", "items": []}
    unit = context.find_unit(params.text_document.uri)
    return context.publication.answer_pull(unit, params.previous_result_id)
