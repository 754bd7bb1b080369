"""``textDocument/hover``: the name, operator or schema under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.operators import subject_at
from fullgraph.operators.strings import WrittenSchema, string_at
from fullgraph.render.operators import (
    OperatorPage,
    markdown,
    page_of,
    page_of_schema,
    page_text,
)

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.TEXT_DOCUMENT_HOVER


def handle(server: Server, params: types.HoverParams) -> types.Hover | None:
    unit = server.unit(params.text_document.uri)
    if unit is None or (index := server.session.index(unit)) is None:
        return None
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    text = document.text
    found = subject_at(text, offset, index, unit.seen()) or string_at(text, offset, index)
    if found is None:
        return None
    if isinstance(found, WrittenSchema):
        page: OperatorPage | None = page_of_schema(found)
    else:
        receiver = text[found.start : found.end].rpartition(".")[0].strip()
        page = page_of(index, found, receiver if "\n" not in receiver else "")
    if page is None:
        return None
    contents = (
        types.MarkupContent(types.MarkupKind.Markdown, markdown(page))
        if server.session.client.hover_markdown
        else types.MarkupContent(types.MarkupKind.PlainText, page_text(page))
    )
    return types.Hover(
        contents=contents,
        range=types.Range(
            types.Position(*document.position_at(found.start)),
            types.Position(*document.position_at(found.end)),
        ),
    )
