"""``textDocument/diagnostic``: what is known now.

The answer never waits for a run; when there are new findings the client is asked to pull again.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.TEXT_DOCUMENT_DIAGNOSTIC


def handle(context: Context, params: types.DocumentDiagnosticParams) -> Any:
    if not context.client.pull_diagnostics:
        # Findings are pushed to this client; giving them here too would show each twice.
        return {"kind": "full", "items": []}
    unit = context.unit(params.text_document.uri)
    return context.publication.report(unit, params.previous_result_id)
