"""``textDocument/semanticTokens/full``: the words of probe comments."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import TOKEN_TYPES
from fullgraph.probes import comment_on, probe_tokens
from fullgraph.probes.tokens import ProbeTokenKind

METHOD = types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL

_TYPES: dict[ProbeTokenKind, str] = {
    "directive": "keyword",
    "constant": "keyword",
    "method": "method",
    "class": "class",
    "parameter": "parameter",
    "dtype": "type",
    "size": "variable",
    "device": "enumMember",
    "number": "number",
    "string": "string",
}


def handle(context: ServerContext, params: types.SemanticTokensParams) -> types.SemanticTokens:
    unit = context.find_unit(params.text_document.uri)
    data: list[int] = []
    if unit is None:
        return types.SemanticTokens(data)
    document, last = unit.document, (0, 0)
    positions = document.positions
    if "fullgraph:" not in document.text:
        return types.SemanticTokens(data)
    for number in range(len(positions)):
        comment = comment_on(positions, number)
        if comment is None:
            continue
        begin = positions.start(number) + comment.start
        for token in probe_tokens(comment.text):
            kind = _TYPES.get(token.kind)
            if kind is None:
                continue
            line, start = document.position_at(begin + token.start)
            _, end = document.position_at(begin + token.end)
            moved = line - last[0]
            data += [moved, start - (0 if moved else last[1]), end - start]
            data += [TOKEN_TYPES.index(kind), 0]
            last = line, start
    return types.SemanticTokens(data)
