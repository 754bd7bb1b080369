"""``textDocument/hover``: all known information about the code under the cursor."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers import hover_sections

METHOD = types.TEXT_DOCUMENT_HOVER


def handle(context: ServerContext, params: types.HoverParams) -> types.Hover | None:
    unit = context.find_unit(params.text_document.uri)
    if unit is None:
        return None
    unit.look_at(params.position.line, params.position.line)
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    found = list(hover_sections(context, unit, offset))
    if not found:
        return None
    contents = (
        types.MarkupContent(
            types.MarkupKind.Markdown, "\n\n---\n\n".join(section.markdown for section in found)
        )
        if context.client.hover_markdown
        else types.MarkupContent(
            types.MarkupKind.PlainText, "\n\n".join(section.plain for section in found)
        )
    )
    inner = min(found, key=lambda section: section.length)
    return types.Hover(
        contents=contents,
        range=types.Range(
            types.Position(*document.position_at(inner.start)),
            types.Position(*document.position_at(inner.end)),
        ),
    )
