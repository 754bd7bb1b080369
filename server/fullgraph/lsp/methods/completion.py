"""``textDocument/completion``: members of torch, its operators, and arguments of its functions.

The answer is plain data: a list of hundreds of items as types takes longer to write down than to
find.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import Context
from fullgraph.lsp.probe_completion import TRIGGERS, probe_completion
from fullgraph.operators.completion import (
    CandidateKind,
    CompletionCandidate,
    Completions,
    complete_at,
    signature_line,
)
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document

METHOD = types.TEXT_DOCUMENT_COMPLETION

_KINDS: dict[CandidateKind, types.CompletionItemKind] = {
    "function": types.CompletionItemKind.Function,
    "method": types.CompletionItemKind.Method,
    "property": types.CompletionItemKind.Property,
    "class": types.CompletionItemKind.Class,
    "exception": types.CompletionItemKind.Class,
    "module": types.CompletionItemKind.Module,
    "namespace": types.CompletionItemKind.Module,
    "operator": types.CompletionItemKind.Function,
    "overload": types.CompletionItemKind.Method,
    "dtype": types.CompletionItemKind.Constant,
    "layout": types.CompletionItemKind.Constant,
    "memory_format": types.CompletionItemKind.Constant,
    "constant": types.CompletionItemKind.Constant,
    "keyword": types.CompletionItemKind.Variable,
    "string": types.CompletionItemKind.Value,
}
_NOTHING: dict[str, Any] = {"isIncomplete": False, "items": []}


def handle(context: Context, params: types.CompletionParams) -> dict[str, Any]:
    unit = context.unit(params.text_document.uri)
    if unit is None:
        return _NOTHING
    mode = context.session.settings(unit).completion_mode
    at = params.position
    if mode != "off" and (of_probe := probe_completion(unit.document, at.line, at.character)):
        return of_probe
    if params.context is not None and params.context.trigger_character in TRIGGERS:
        return _NOTHING
    if mode == "off" or (index := context.session.index(unit)) is None:
        return _NOTHING
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    found = complete_at(document.text, offset, index, unit.seen(), full=mode == "full")
    if found is None:
        return _NOTHING
    return _List(found, context.client, document, index).answer(offset)


class _List:
    """Completions as a client takes them."""

    def __init__(
        self,
        found: Completions,
        client: ClientCapabilities,
        document: Document,
        index: OperatorIndex,
    ) -> None:
        self._found = found
        self._client = client
        self._document = document
        self._index = index

    def answer(self, offset: int) -> dict[str, Any]:
        edit = self._range(offset)
        shared: dict[str, Any] = {}
        own: dict[str, Any] | None = None
        if "editRange" in self._client.completion_defaults:
            shared["editRange"] = edit
        else:
            own = edit if "insert" in edit else {"range": edit}
        items = [self._item(number, one, own) for number, one in enumerate(self._found.items)]
        answer: dict[str, Any] = {"isIncomplete": not self._found.complete, "items": items}
        if shared:
            answer["itemDefaults"] = shared
        return answer

    def _range(self, offset: int) -> dict[str, Any]:
        """What is replaced; where the client can choose, also the rest of the word."""
        start = self._place(self._found.start)
        typed = {"start": start, "end": self._place(offset)}
        if self._found.end <= offset:
            return typed
        if not self._client.completion_insert_replace:
            return typed
        return {"insert": typed, "replace": {"start": start, "end": self._place(self._found.end)}}

    def _place(self, offset: int) -> dict[str, int]:
        line, character = self._document.position_at(offset)
        return {"line": line, "character": character}

    def _item(
        self, number: int, candidate: CompletionCandidate, own: dict[str, Any] | None
    ) -> dict[str, Any]:
        client = self._client
        item: dict[str, Any] = {
            "label": candidate.label,
            "kind": _KINDS[candidate.kind].value,
            "sortText": f"{number:04}",
        }
        if own is not None:
            item["textEdit"] = {**own, "newText": candidate.label}
        if candidate.filter:
            item["filterText"] = candidate.filter
        if candidate.deprecated:
            if client.completion_deprecated_tag:
                item["tags"] = [types.CompletionItemTag.Deprecated.value]
            elif client.completion_deprecated:
                item["deprecated"] = True
        if candidate.path:
            item["data"] = {"uri": self._document.uri, "path": candidate.path}
            if candidate.kind == "keyword":
                item["data"]["parameter"] = candidate.label.rstrip("=")
        if candidate.note:
            if client.completion_label_details:
                item["labelDetails"] = {"description": candidate.note}
            else:
                item["detail"] = candidate.note
        elif "detail" not in client.completion_resolve and candidate.path:
            item["detail"] = signature_line(self._index, candidate.path)
        return item
