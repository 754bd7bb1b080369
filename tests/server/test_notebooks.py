"""Notebooks as one text of Python, and the cells that its lines come from."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lsprotocol import types
from pygls.protocol import default_converter

from fullgraph.domain.notebooks import CellPlace, NotANotebook, find_cell, notebook_to_python
from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.measuring import Timed
from fullgraph.fixes.tracing import Judgment
from fullgraph.fixes.verification import Fix
from fullgraph.lsp.measures import Measures
from fullgraph.lsp.notebooks import NotebookTranslator
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document
from fullgraph_engine.protocol import Measurement

NOTEBOOK_URI = "file:///net.ipynb"


def notebook(*cells: str) -> str:
    """Return a notebook of code cells; ``#md`` begins a text cell."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "markdown" if cell.startswith("#md") else "code",
                    "source": cell.splitlines(keepends=True),
                }
                for cell in cells
            ]
        }
    )


def test_code_cells_come_in_order_below_their_numbers() -> None:
    lines = notebook_to_python(notebook("import torch", "#md text", "x = 1\ny = 2")).split("\n")
    assert lines[1:] == ["# %% cell 1", "import torch", "# %% cell 3", "x = 1", "y = 2", ""]


@pytest.mark.parametrize("magic", ["%matplotlib inline", "!pip install x", "?print", "x.y??"])
def test_magics_are_skipped(magic: str) -> None:
    assert f"pass  # {magic}" in notebook_to_python(notebook(f"{magic}\nx = 1"))


def test_a_cell_of_another_language_is_skipped_and_a_timed_one_is_not() -> None:
    text = notebook_to_python(notebook("%%bash\nrm x", "%%time\ny = 1"))
    assert "# rm x" in text and "\ny = 1\n" in text
    compile(text, "notebook", "exec")


def test_a_remainder_is_no_magic() -> None:
    assert "x = (7\n  % 2)" in notebook_to_python(notebook("x = (7\n  % 2)"))


def test_a_line_has_its_place_in_a_cell() -> None:
    text = TextPositions(notebook_to_python(notebook("a = 1", "#md", "b = 2\nc = 3")))
    assert find_cell(text, 0) is None
    assert find_cell(text, 2) == CellPlace(1, 0)
    assert find_cell(text, 5) == CellPlace(3, 1)
    assert CellPlace(3, 1).words == "cell 3:2"


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"cells": [{}]}'])
def test_what_is_not_a_notebook_is_refused(data: str) -> None:
    with pytest.raises(NotANotebook):
        notebook_to_python(data)


def translator_of(*cells: str) -> NotebookTranslator:
    """A translator with an open notebook."""
    translator = NotebookTranslator()
    uris = [f"vscode-notebook-cell:/net.ipynb#{at}" for at in range(len(cells))]
    params = {
        "notebookDocument": {
            "uri": NOTEBOOK_URI,
            "version": 1,
            "cells": [{"kind": 2, "document": uri} for uri in uris],
        },
        "cellTextDocuments": [
            {"uri": uri, "text": text, "version": 1, "languageId": "python"}
            for uri, text in zip(uris, cells, strict=True)
        ],
    }
    translator.translate_incoming({"method": "notebookDocument/didOpen", "params": params})
    return translator


async def test_fixes_across_two_cells_are_refused_with_a_sentence() -> None:
    """The editor shows the sentence, and nothing is edited."""
    translator, shown = translator_of("x = 1", "y = 2"), list[str]()
    before = notebook_to_python(notebook("x = 1", "y = 2"))
    plain = Measurement("cpu", 1, 2.0, 1.0, 3.0, 2)
    candidate = Candidate("one-line", "Write one line", "")
    fix = Fix(candidate, "safe", (), (), Judgment(True))
    changed = before.replace("x = 1\n# %% cell 2\ny = 2", "z = 3")
    timed = Timed("f", "", plain, plain, (fix,), changed)

    class Connection:
        async def request(self, method: str, params: types.ApplyWorkspaceEditParams) -> None:
            message = {"method": method, "params": default_converter().unstructure(params)}
            list(translator.translate_outgoing(message))

        def show_message(self, level: object, message: str) -> None:
            shown.append(message)

    client = ClientCapabilities(apply_edit=True)
    documents = SimpleNamespace(find_measurements=lambda unit, target: [timed])
    unit = SimpleNamespace(document=Document(NOTEBOOK_URI, before, 1, Encoding.UTF16))
    parts: Any = (Connection(), SimpleNamespace(client=client), None, documents, None)
    measures, opened = Measures(*parts), cast("AnalysisUnit", unit)
    assert timed.changed != before
    reason = "one edit changes more than one cell of the notebook; make this edit by hand"
    assert (await measures.apply_fixes(opened, "f"))["reason"] == (
        f"The fixes were not applied: {reason}."
    )
    assert shown == [f"The fixes were not applied: {reason}."]
