"""``workspace/textDocumentContent``: the documents behind URIs of our scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_TEXT_DOCUMENT_CONTENT


async def handle(
    server: Server, params: types.TextDocumentContentParams
) -> types.TextDocumentContentResult:
    return types.TextDocumentContentResult(text=await server.reading.content(params.uri))
