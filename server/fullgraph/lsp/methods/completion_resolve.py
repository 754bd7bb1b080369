"""``completionItem/resolve``: signature and documentation of the selected item."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.places import data_value
from fullgraph.operators.completion import signature_line, subject_of_path
from fullgraph.render.operators import page_markdown, page_of, page_text

METHOD = types.COMPLETION_ITEM_RESOLVE


def handle(context: ServerContext, params: types.CompletionItem) -> types.CompletionItem:
    """Add documentation to a completion item; return it unchanged if its name is not in the index
    of torch."""
    uri, path, parameter = (_data_text(params.data, key) for key in ("uri", "path", "parameter"))
    unit = context.find_unit(uri)
    index = None if unit is None or not path else context.session.engines.find_index(unit)
    if index is None:
        return params
    if not parameter and not params.detail:
        params.detail = signature_line(index, path) or None
    subject = subject_of_path(index, path, parameter)
    page = None if subject is None else page_of(index, subject)
    if page is not None:
        params.documentation = (
            types.MarkupContent(types.MarkupKind.Markdown, page_markdown(page))
            if context.client.completion_markdown
            else page_text(page)
        )
    return params


def _data_text(data: Any, key: str) -> str:
    value = data_value(data, key)
    return value if isinstance(value, str) else ""
