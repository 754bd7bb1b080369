"""``completionItem/resolve``: the first signature and the page of an item that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import Context
from fullgraph.operators.completion import signature_line, subject_of_path
from fullgraph.render.operators import markdown, page_of, page_text

METHOD = types.COMPLETION_ITEM_RESOLVE


def handle(context: Context, params: types.CompletionItem) -> types.CompletionItem:
    """The item as it came where nothing is known of it any more."""
    uri, path, parameter = (_text(params.data, key) for key in ("uri", "path", "parameter"))
    unit = context.unit(uri)
    index = None if unit is None or not path else context.session.index(unit)
    if index is None:
        return params
    if not parameter and not params.detail:
        params.detail = signature_line(index, path) or None
    subject = subject_of_path(index, path, parameter)
    page = None if subject is None else page_of(index, subject)
    if page is not None:
        params.documentation = (
            types.MarkupContent(types.MarkupKind.Markdown, markdown(page))
            if context.client.completion_markdown
            else page_text(page)
        )
    return params


def _text(data: Any, key: str) -> str:
    """A text in the data of an item, which clients send back as they got it."""
    value = data.get(key) if isinstance(data, Mapping) else getattr(data, key, None)
    return value if isinstance(value, str) else ""
