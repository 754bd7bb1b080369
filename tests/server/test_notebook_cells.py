"""Notebooks in an editor: findings, lenses, hovers and fixes belong to the cells they are about."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

IMPORTS = "import random\nimport torch\nimport torch.nn as nn\n%matplotlib inline"
MODEL = (
    "class Net(nn.Module):\n"
    "    def forward(self, x):\n"
    "        y = x + 1\n"
    "        y = y * (\n"
    "            random.random(  # break: A break\n"
    "            )\n"
    "        )\n"
    "        return y"
)
SHELL = "%%bash\nls"


class Notebook:
    """A notebook in an editor; its cells are texts of the editor as well."""

    def __init__(self, editor: Any, *sources: str) -> None:
        self.editor = editor
        self.uri = (editor.root / "model.ipynb").as_uri()
        self.version = 1
        self.cells: list[str] = []
        items = [self._create_cell(source) for source in sources]
        self.cells += [item.uri for item in items]
        cells = [types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in self.cells]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", self.version, cells)
        editor.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(document, items)
        )

    def _create_cell(self, source: str) -> types.TextDocumentItem:
        uri = f"vscode-notebook-cell:/model.ipynb#W{len(self.editor.texts)}"
        self.editor.texts[uri], self.editor.versions[uri] = source, 1
        return types.TextDocumentItem(uri, "python", 1, source)

    def insert(self, at: int, source: str) -> str:
        item = self._create_cell(source)
        self.cells.insert(at, item.uri)
        cell = types.NotebookCell(types.NotebookCellKind.Code, item.uri)
        array = types.NotebookCellArrayChange(at, 0, [cell])
        self._change(structure=types.NotebookDocumentCellChangeStructure(array, [item]))
        return item.uri

    def delete(self, at: int) -> None:
        closed = [types.TextDocumentIdentifier(self.cells.pop(at))]
        array = types.NotebookCellArrayChange(at, 1)
        self._change(structure=types.NotebookDocumentCellChangeStructure(array, did_close=closed))

    def edit(self, uri: str, old: str, new: str) -> None:
        """Replace a text that a cell has once."""
        text = self.editor.texts[uri]
        start = text.index(old)
        range_ = types.Range(
            self.editor.position(uri, start), self.editor.position(uri, start + len(old))
        )
        self.editor.texts[uri] = text.replace(old, new, 1)
        self.editor.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.editor.versions[uri], uri)
        changes = [types.TextDocumentContentChangePartial(range_, new)]
        self._change(text_content=[types.NotebookDocumentCellContentChanges(document, changes)])

    def _change(self, **changes: Any) -> None:
        self.version += 1
        self.editor.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                types.NotebookDocumentChangeEvent(
                    cells=types.NotebookDocumentCellChanges(**changes)
                ),
            )
        )

    async def until_found(self, uri: str) -> tuple[str, str]:
        """The only diagnostic of a cell, as soon as there is one: its first line, and its text."""

        async def found() -> bool:
            return bool(await self.editor.seen(uri))

        await self.editor.until(found)
        (one,) = await self.editor.seen(uri)
        return one


async def find_action(editor: Any, uri: str, words: str) -> types.CodeAction:
    """Return the first quick fix of the break with these words in its title, as soon as there is
    one."""

    async def find() -> list[types.CodeAction]:
        return [
            one
            for one in await editor.actions(uri, "random.random")
            if one.kind == "quickfix" and words in one.title
        ]

    found: types.CodeAction = (await editor.until(find))[0]
    return found


async def test_findings_and_lenses_are_in_their_cells(editor: Any) -> None:
    notebook = Notebook(editor, IMPORTS, MODEL, SHELL)
    imports, model, shell = notebook.cells
    message, text = await notebook.until_found(model)
    assert (message, text.split("(")[0]) == ("A break", "random.random")
    assert await editor.seen(imports) == await editor.seen(shell) == []
    await editor.until_state("ready")
    lenses = await editor.lenses(model)
    assert {editor.at(model, lens.range) for lens in lenses} == {"Net"}
    assert await editor.lenses(imports) == await editor.lenses(shell) == []


async def test_an_inserted_and_a_deleted_cell_move_the_findings(editor: Any) -> None:
    notebook = Notebook(editor, IMPORTS, MODEL)
    model = notebook.cells[1]
    before = await notebook.until_found(model)
    above = notebook.insert(1, "# one\n# two\n# three")
    await editor.until_rest()
    assert await notebook.until_found(model) == before
    assert await editor.seen(above) == []
    notebook.delete(1)
    await editor.until_rest()
    assert await notebook.until_found(model) == before


async def test_an_edit_of_a_cell_is_an_edit_of_the_text(editor: Any) -> None:
    notebook = Notebook(editor, IMPORTS, MODEL)
    imports, model = notebook.cells
    await notebook.until_found(model)
    notebook.edit(imports, "import torch\n", "import torch\n\n\n")
    notebook.edit(model, "A break", "Another")
    notebook.edit(model, "x + 1", "x + 2")
    await editor.until_rest()

    async def changed() -> bool:
        return [message for message, _ in await editor.seen(model)] == ["Another"]

    await editor.until(changed)


async def test_a_fix_is_an_edit_of_its_cell(editor: Any) -> None:
    notebook = Notebook(editor, IMPORTS, MODEL)
    model = notebook.cells[1]
    await notebook.until_found(model)
    edits = editor.edits(model, await find_action(editor, model, "(removes the break"))
    lines = editor.texts[model].split("\n")
    for edit in reversed(edits):
        first, last = edit.range.start.line, edit.range.end.line
        lines[first:last] = edit.new_text.rstrip("\n").split("\n")
    assert lines[2:] == [
        "        y = x + 1",
        "        y = y * random.uniform(0.0, 1.0)",
        "        return y",
    ]


async def test_a_fix_of_the_last_line_ends_at_the_end_of_its_cell(editor: Any) -> None:
    line = "        return x * random.random()  # break: A break"
    cell = f"class Net(nn.Module):\n    def forward(self, x):\n{line}"
    notebook = Notebook(editor, IMPORTS, cell, "z = 1")
    model = notebook.cells[1]
    await notebook.until_found(model)
    (edit,) = editor.edits(model, await find_action(editor, model, "Ignore "))
    assert edit.range.end.line == 2
    assert not edit.new_text.endswith("\n")


async def test_a_closed_notebook_takes_its_findings_along(editor: Any) -> None:
    notebook = Notebook(editor, IMPORTS, MODEL)
    model = notebook.cells[1]
    await notebook.until_found(model)
    closed = [types.TextDocumentIdentifier(uri) for uri in notebook.cells]
    editor.client.notebook_document_did_close(
        types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(notebook.uri), closed)
    )

    async def gone() -> bool:
        return await editor.seen(model) == []

    await editor.until(gone)
