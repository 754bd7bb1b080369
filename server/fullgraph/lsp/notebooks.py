"""Translate messages about the cells of a notebook to messages about one Python text, and the
results back.

Each notebook is one text for the server, with the URI of the notebook. The translation works on
JSON messages, so that no handler needs to know notebooks: messages about a notebook become messages
about its text, requests for a cell become requests for lines of the text, and results are divided
among the cells. LSP 3.17 describes the messages in "Notebook Document Synchronization".
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.domain.notebooks import JoinedCells, join_cells
from fullgraph.domain.positions import Encoding
from fullgraph.lsp.server_capabilities import CHANGED
from fullgraph.session.documents import Document, TextChange

Json = dict[str, Any]

_OPAQUE = ("arguments", "data")
"""Keys of values that clients send back unchanged; positions inside these values are not
translated.
"""


class _Unmapped(JsonRpcException):
    """Raised for an edit that no cell can have, such as one across two cells."""

    MESSAGE = "one edit changes more than one cell of the notebook; make this edit by hand"


class _Notebook:
    """An open notebook: its cells in order, and their joined text."""

    def __init__(self, uri: str, cells: Sequence[Document]) -> None:
        self.uri = uri
        self.cells = list(cells)
        self.joined = JoinedCells("", ())
        self.join()

    def join(self) -> None:
        """Join the texts of the cells again, after a cell has changed."""
        self.joined = join_cells((at, cell.text) for at, cell in enumerate(self.cells, 1))

    def start_of(self, cell_uri: str) -> int:
        """Return the line of the joined text at which a cell begins."""
        at = next(at for at, cell in enumerate(self.cells) if cell.uri == cell_uri)
        return self.joined.starts[at]

    def cell_at(self, line: int) -> tuple[Document, int] | None:
        """Return the cell with a line of the joined text, and the line at which the cell begins;
        None for lines outside of all cells."""
        at = bisect.bisect_right(self.joined.starts, line) - 1
        if at < 0:
            return None
        start = self.joined.starts[at]
        return (self.cells[at], start) if line < start + _line_count(self.cells[at]) else None


def _line_count(cell: Document) -> int:
    return cell.text.count("\n") + 1


class NotebookTranslator:
    """Translates the messages of one connection; ``encoding`` is the unit in which its positions
    count characters."""

    def __init__(self) -> None:
        self.encoding = Encoding.UTF16
        self._notebooks: dict[str, _Notebook] = {}
        """Notebooks by URI. They stay when they are closed, because the diagnostics of their cells
        are cleared afterwards."""
        self._requests: dict[int | str, tuple[_Notebook, str]] = {}
        """Requests about a cell that were not answered yet, by request id: the notebook and the URI
        of the cell.
        """

    @property
    def is_used(self) -> bool:
        """Whether a notebook was opened."""
        return bool(self._notebooks)

    # -- from the client ----------------------------------------------------------------------

    def translate_incoming(self, message: Json) -> Json:
        """Translate a message of the client to one about the joined text of a notebook; messages
        about other texts stay as they are."""
        method, params = message.get("method", ""), message.get("params")
        if not isinstance(params, dict):
            return message
        if method.startswith("notebookDocument/"):
            return self._translate_notebook_message(message, method, params)
        if not self._notebooks:
            return message
        if method == types.WORKSPACE_EXECUTE_COMMAND:
            return {**message, "params": self._name_notebooks(params)}
        found = self._find_cell(params)
        if found is None:
            return message
        notebook, cell_uri = found
        if (request := message.get("id")) is not None:
            self._requests[request] = found
        moved = _move(params, notebook.start_of(cell_uri))
        moved["textDocument"] = {**moved["textDocument"], "uri": notebook.uri}
        return {**message, "params": moved}

    def _find_cell(self, params: Json) -> tuple[_Notebook, str] | None:
        identifier = params.get("textDocument")
        uri = identifier.get("uri") if isinstance(identifier, dict) else None
        return self._find_cell_by_uri(uri) if isinstance(uri, str) else None

    def _find_cell_by_uri(self, uri: str) -> tuple[_Notebook, str] | None:
        for notebook in self._notebooks.values():
            if any(cell.uri == uri for cell in notebook.cells):
                return notebook, uri
        return None

    def _name_notebooks(self, value: Any) -> Any:
        """Replace URIs of cells in the arguments of a command by URIs of notebooks, and line
        numbers of cells by line numbers of the joined text."""
        if isinstance(value, list):
            return [self._name_notebooks(one) for one in value]
        if isinstance(value, str):
            found = self._find_cell_by_uri(value)
            return value if found is None else found[0].uri
        if not isinstance(value, dict):
            return value
        named = {key: self._name_notebooks(one) for key, one in value.items()}
        found = self._find_cell_by_uri(str(value.get("uri", "")))
        if found is not None and isinstance(value.get("line"), int):
            named["line"] = value["line"] + found[0].start_of(found[1])
        return named

    def _translate_notebook_message(self, message: Json, method: str, params: Json) -> Json:
        """Translate a message about a notebook to the same message about its joined text."""
        received = params["notebookDocument"]
        uri = received["uri"]
        kind = method.removeprefix("notebookDocument/")
        if kind == "didOpen":
            documents = self._open_cells(params.get("cellTextDocuments", ()))
            cells = [
                documents[one["document"]] for one in received["cells"] if _has(one, documents)
            ]
            notebook = self._notebooks[uri] = _Notebook(uri, cells)
            text = {"languageId": "python", "text": notebook.joined.text}
            content: Json = {"textDocument": {"uri": uri, "version": received["version"], **text}}
        elif kind == "didChange":
            notebook = self._notebooks[uri]
            self._change_cells(notebook, params["change"].get("cells") or {})
            content = {
                "textDocument": {"uri": uri, "version": received["version"]},
                "contentChanges": [{"text": notebook.joined.text}],
            }
        else:
            content = {"textDocument": {"uri": uri}}
        return {**message, "method": f"textDocument/{kind}", "params": content}

    def _open_cells(self, items: Sequence[Json]) -> dict[str, Document]:
        return {
            one["uri"]: Document(one["uri"], one["text"], one["version"], self.encoding)
            for one in items
            if one["languageId"] == "python"
        }

    def _change_cells(self, notebook: _Notebook, change: Json) -> None:
        """Apply the changes of a notebook: first changes to the list of cells, then changes to the
        texts of cells."""
        structure = change.get("structure")
        if structure is not None:
            documents = {cell.uri: cell for cell in notebook.cells}
            documents |= self._open_cells(structure.get("didOpen") or ())
            array = structure["array"]
            added = [one for one in array.get("cells") or () if _has(one, documents)]
            first, last = array["start"], array["start"] + array["deleteCount"]
            notebook.cells[first:last] = [documents[one["document"]] for one in added]
        by_uri = {cell.uri: cell for cell in notebook.cells}
        for edited in change.get("textContent") or ():
            cell = by_uri.get(edited["document"]["uri"])
            if cell is not None:
                changes = [_to_change(one) for one in edited["changes"]]
                cell.apply_changes(changes, edited["document"]["version"])
        notebook.join()

    # -- to the client ------------------------------------------------------------------------

    def translate_outgoing(self, message: Json) -> Iterator[Json]:
        """Translate a message of the server; yield the messages to send to the client instead."""
        method, params = message.get("method"), message.get("params") or {}
        notebook = self._notebooks.get(params.get("uri", "")) if isinstance(params, dict) else None
        if method is None:
            found = self._requests.pop(message.get("id", ""), None)
            if found is not None and "result" in message:
                message = {**message, "result": _CellResult(*found).translate(message["result"])}
            yield message
        elif method == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS and notebook is not None:
            for cell in notebook.cells:
                items = _CellResult(notebook, cell.uri).translate(params["diagnostics"])
                yield {**message, "params": {"uri": cell.uri, "diagnostics": items}}
        elif method == CHANGED and notebook is not None:
            yield message
            for cell in notebook.cells:
                yield {**message, "params": {**params, "uri": cell.uri}}
        elif method == types.WORKSPACE_APPLY_EDIT:
            yield {**message, "params": {**params, "edit": self._translate_edit(params["edit"])}}
        else:
            yield message

    def _translate_edit(self, edit: Json) -> Json:
        for notebook in self._notebooks.values():
            edit = {**edit, **_divide_edits(notebook, edit)}
        return edit


def _has(cell: Json, documents: Mapping[str, Document]) -> bool:
    """Whether the client has sent the text of a cell; it sends only Python cells."""
    return cell["document"] in documents


def _to_change(change: Json) -> TextChange:
    if "range" not in change:
        return TextChange(change["text"])
    start, end = change["range"]["start"], change["range"]["end"]
    return TextChange(
        change["text"], (start["line"], start["character"]), (end["line"], end["character"])
    )


def _move(value: Any, lines: int) -> Any:
    """Add lines to all positions in JSON data."""
    if isinstance(value, list):
        return [_move(one, lines) for one in value]
    if not isinstance(value, dict):
        return value
    if _is_position(value):
        return {**value, "line": max(value["line"] + lines, 0)}
    return {key: one if key in _OPAQUE else _move(one, lines) for key, one in value.items()}


def _is_position(value: Json) -> bool:
    return isinstance(value.get("line"), int) and "character" in value


class _CellResult:
    """Translates the result of a request for one cell: positions and URIs."""

    def __init__(self, notebook: _Notebook, cell_uri: str) -> None:
        self._notebook = notebook
        self._cell_uri = cell_uri

    def translate(self, value: Any) -> Any:
        """Translate JSON data. Lists lose the items whose ranges are in other cells."""
        if isinstance(value, list):
            return [
                one for item in value if not self._is_elsewhere(item) for one in self._try(item)
            ]
        if not isinstance(value, dict):
            return value
        if _is_position(value):
            return _move(value, -self._notebook.start_of(self._cell_uri))
        if value.get("uri") == self._notebook.uri and "range" in value:
            return self._translate_location(value)
        translated = {
            key: one if key in _OPAQUE else self.translate(one)
            for key, one in value.items()
            if key not in ("changes", "documentChanges")
        }
        return {**translated, **_divide_edits(self._notebook, value)}

    def _try(self, item: Any) -> Iterator[Any]:
        try:
            yield self.translate(item)
        except _Unmapped:
            return

    def _is_elsewhere(self, item: Any) -> bool:
        """Whether an item of a list has a range or a position in another cell."""
        if not isinstance(item, dict) or "uri" in item:
            return False
        place = item["range"]["start"] if "range" in item else item.get("position")
        if not isinstance(place, dict):
            return False
        found = self._notebook.cell_at(place["line"])
        return found is None or found[0].uri != self._cell_uri

    def _translate_location(self, location: Json) -> Json:
        found = self._notebook.cell_at(location["range"]["start"]["line"])
        if found is None:
            return location
        cell, start = found
        return {**location, "uri": cell.uri, "range": _move(location["range"], -start)}


def _divide_edits(notebook: _Notebook, edit: Json) -> Json:
    """Return the keys ``changes`` and ``documentChanges`` of a workspace edit, with the edits of a
    notebook's text divided among its cells; the result is empty for other objects.

    Raises:
        _Unmapped: An edit is in no cell, or in several.
    """
    divided: Json = {}
    if isinstance(changes := edit.get("changes"), dict):
        divided["changes"] = {}
        for uri, edits in changes.items():
            by_cell = _edits_by_cell(notebook, edits) if uri == notebook.uri else {uri: edits}
            divided["changes"] |= by_cell
    if isinstance(edit.get("documentChanges"), list):
        divided["documentChanges"] = [
            part
            for change in edit["documentChanges"]
            for part in _divide_document_change(notebook, change)
        ]
    return divided


def _divide_document_change(notebook: _Notebook, change: Json) -> Iterator[Json]:
    if change.get("textDocument", {}).get("uri") != notebook.uri:
        yield change
        return
    for uri, edits in _edits_by_cell(notebook, change["edits"]).items():
        yield {"textDocument": {"uri": uri, "version": None}, "edits": edits}


def _edits_by_cell(notebook: _Notebook, edits: Sequence[Json]) -> dict[str, list[Json]]:
    """Return edits of the joined text as edits of cells, by the URI of the cell.

    An edit of whole lines up to the end of a cell ends at the comment of the next cell; it becomes
    an edit up to the end of the cell's last line. An insertion above all cells becomes one at the
    start of the first cell.
    """
    found: dict[str, list[Json]] = {}
    for edit in edits:
        first, last = edit["range"]["start"], edit["range"]["end"]
        if notebook.joined.starts and last["line"] < notebook.joined.starts[0]:
            first = last = {"line": notebook.joined.starts[0], "character": 0}
        place = notebook.cell_at(first["line"])
        if place is None:
            raise _Unmapped()
        cell, start = place
        end, text = last, edit["newText"]
        if notebook.cell_at(last["line"]) != place:
            count = _line_count(cell)
            if (last["line"], last["character"]) != (start + count, 0):
                raise _Unmapped()
            _, width = cell.position_at(len(cell.text))
            end, text = {"line": start + count - 1, "character": width}, text.removesuffix("\n")
        range_ = _move({"start": first, "end": end}, -start)
        found.setdefault(cell.uri, []).append({**edit, "range": range_, "newText": text})
    return found
