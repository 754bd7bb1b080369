"""``textDocument/diagnostic``: what is known now.

The answer never waits for a run; when there are new findings the client is asked to pull again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_DIAGNOSTIC


def handle(server: Server, params: types.DocumentDiagnosticParams) -> Any:
    if not server.session.client.pull_diagnostics:
        # Findings are pushed to this client; giving them here too would show each twice.
        return {"kind": "full", "items": []}
    unit = server.unit(params.text_document.uri)
    return server.publication.report(unit, params.previous_result_id)
