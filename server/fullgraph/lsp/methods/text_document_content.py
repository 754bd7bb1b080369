"""``workspace/textDocumentContent``: text of a document whose URI has the scheme ``fullgraph``."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.WORKSPACE_TEXT_DOCUMENT_CONTENT


async def handle(
    context: Context, params: types.TextDocumentContentParams
) -> types.TextDocumentContentResult:
    return types.TextDocumentContentResult(text=await context.documents.content(params.uri))
