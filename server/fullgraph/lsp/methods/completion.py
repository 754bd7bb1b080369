"""``textDocument/completion``: members of torch, its operators, and arguments of its functions.

The answer is plain data, because serializing hundreds of typed items takes longer than finding
them.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.probes import TRIGGERS, probe_completion
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


def handle(context: ServerContext, params: types.CompletionParams) -> dict[str, Any]:
    unit = context.find_unit(params.text_document.uri)
    if unit is None:
        return _NOTHING
    mode = context.session.workspace.settings(unit.document).completion_mode
    at = params.position
    if mode != "off" and (probe_items := probe_completion(unit.document, at.line, at.character)):
        return probe_items
    if params.context is not None and params.context.trigger_character in TRIGGERS:
        return _NOTHING
    if mode == "off" or (index := context.session.engines.find_index(unit)) is None:
        return _NOTHING
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    found = complete_at(document.text, offset, index, unit.view.seen_values(), full=mode == "full")
    if found is None:
        return _NOTHING
    return _CompletionList(found, context.client, document, index).build_answer(offset)


class _CompletionList:
    """Converts completions to an LSP list with the fields that the client supports."""

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

    def build_answer(self, offset: int) -> dict[str, Any]:
        edit = self._edit_range(offset)
        shared: dict[str, Any] = {}
        item_range: dict[str, Any] | None = None
        if "editRange" in self._client.completion_defaults:
            shared["editRange"] = edit
        else:
            item_range = edit if "insert" in edit else {"range": edit}
        items = [
            self._completion_item(number, candidate, item_range)
            for number, candidate in enumerate(self._found.items)
        ]
        answer: dict[str, Any] = {"isIncomplete": not self._found.complete, "items": items}
        if shared:
            answer["itemDefaults"] = shared
        return answer

    def _edit_range(self, offset: int) -> dict[str, Any]:
        """Return the range to replace. If the client supports it, also return a range that includes
        the word after the cursor."""
        start = self._lsp_position(self._found.start)
        typed = {"start": start, "end": self._lsp_position(offset)}
        if self._found.end <= offset:
            return typed
        if not self._client.completion_insert_replace:
            return typed
        return {
            "insert": typed,
            "replace": {"start": start, "end": self._lsp_position(self._found.end)},
        }

    def _lsp_position(self, offset: int) -> dict[str, int]:
        line, character = self._document.position_at(offset)
        return {"line": line, "character": character}

    def _completion_item(
        self, number: int, candidate: CompletionCandidate, item_range: dict[str, Any] | None
    ) -> dict[str, Any]:
        client = self._client
        item: dict[str, Any] = {
            "label": candidate.label,
            "kind": _KINDS[candidate.kind].value,
            "sortText": f"{number:04}",
        }
        if item_range is not None:
            item["textEdit"] = {**item_range, "newText": candidate.label}
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
