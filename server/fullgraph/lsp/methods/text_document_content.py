"""``workspace/textDocumentContent``: text of a document whose URI has the scheme ``fullgraph``."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.WORKSPACE_TEXT_DOCUMENT_CONTENT


async def handle(
    context: ServerContext, params: types.TextDocumentContentParams
) -> types.TextDocumentContentResult:
    return types.TextDocumentContentResult(text=await context.documents.read_content(params.uri))
