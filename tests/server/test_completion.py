"""Completion as an editor asks for it, and what it gets when an item is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from fullgraph.operators.completion import MAX_ITEMS
from fullgraph_engine.protocol.operators import (
    Name,
    Operator,
    Overload,
    encode_index,
    entry_of,
)

from .operator_pages import write_index

IMPORTS = "import torch\nimport torch.nn.functional as F\n"
NET = "class Net(nn.Module):\n    call()\n"


@pytest.fixture
async def open_text(open_editor: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a text, with the cursor at ``|``, in an editor whose engine has an operator index."""
    path = write_index(tmp_path / "operators.index")

    async def start(
        text: str, *, engine: str = "", mode: str = "", **how: Any
    ) -> tuple[Any, str, types.Position]:
        configuration = {"completion": {"mode": mode}} if mode else {}
        editor = await open_editor(
            engine=engine or f"index={path}", configuration=configuration, **how
        )
        whole = f"{IMPORTS}{text}\n{NET}"
        uri = editor.open("model.py", whole.replace("|", "", 1))
        await editor.until_state("ready")
        if not engine:
            await editor.until_index(uri)
        return editor, uri, editor.position(uri, whole.index("|"))

    return start


async def ask(editor: Any, uri: str, position: types.Position) -> types.CompletionList:
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), position)
    found = await editor.client.text_document_completion_async(params)
    assert isinstance(found, types.CompletionList)
    return found


def labels(found: types.CompletionList) -> list[str]:
    return [item.label for item in sorted(found.items, key=lambda item: item.sort_text or "")]


def merged(found: types.CompletionList, label: str) -> types.CompletionItem:
    """An item as clients have it, with what the list says for all."""
    return next(item for item in found.items if item.label == label)


async def test_operators_and_their_overloads(open_text: Any) -> None:
    editor, uri, position = await open_text("y = torch.ops.aten.|")
    found = await ask(editor, uri, position)
    assert labels(found) == ["add_", "max", "nonzero"]
    assert not found.is_incomplete
    assert {item.kind for item in found.items} == {types.CompletionItemKind.Function}
    editor.edit(uri, "torch.ops.aten.", "torch.ops.aten.max.")
    position.character += len("max.")
    found = await ask(editor, uri, position)
    assert labels(found) == ["default", "dim", "other", "out"]
    assert editor.offers.completion_provider.resolve_provider
    assert "." in editor.offers.completion_provider.trigger_characters


@pytest.mark.parametrize(
    ("mode", "members", "keywords"),
    [
        ("default", [], ["dim=", "keepdim="]),
        ("full", ["many", "max"], ["dim=", "keepdim="]),
        ("off", [], []),
    ],
)
async def test_what_the_setting_lets_through(
    open_text: Any, mode: str, members: list[str], keywords: list[str]
) -> None:
    editor, uri, position = await open_text("y = torch.ma|\nz = torch.max(x, di)", mode=mode)
    assert labels(await ask(editor, uri, position)) == members
    inside = editor.position(uri, editor.texts[uri].index("di)") + 2)
    assert labels(await ask(editor, uri, inside)) == keywords


async def test_the_setting_may_change(open_text: Any) -> None:
    editor, uri, position = await open_text("y = torch.ma|")
    assert labels(await ask(editor, uri, position)) == []
    editor.configure(completion={"mode": "full"})

    async def offered() -> bool:
        return labels(await ask(editor, uri, position)) == ["many", "max"]

    await editor.until(offered)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_places_are_counted_as_the_client_counts(open_text: Any, encoding: str) -> None:
    editor, uri, position = await open_text(
        'y = "😀é", torch.ops.aten.no|nzero(x)', encoding=encoding
    )
    found = await ask(editor, uri, position)
    assert labels(found) == ["nonzero"]
    assert found.item_defaults is not None
    range_ = found.item_defaults.edit_range
    if isinstance(range_, types.EditRangeWithInsertReplace):
        assert editor.at(uri, range_.insert) == "no"
        assert editor.at(uri, range_.replace) == "nonzero"
    else:
        assert editor.at(uri, range_) == "no"


async def test_a_client_that_knows_little_gets_all_it_needs(open_text: Any) -> None:
    def bare(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.completion = types.CompletionClientCapabilities()

    editor, uri, position = await open_text("y = torch.ops.aten.no|", adjust=bare)
    found = await ask(editor, uri, position)
    assert found.item_defaults is None
    (item,) = found.items
    assert item.detail == "aten::nonzero(Tensor self) -> Tensor"
    assert isinstance(item.text_edit, types.TextEdit)
    assert item.text_edit.new_text == "nonzero"
    assert editor.at(uri, item.text_edit.range) == "no"
    assert item.tags is None and item.deprecated is None and item.label_details is None
    resolved = await editor.client.completion_item_resolve_async(item)
    assert isinstance(resolved.documentation, str)


async def test_deprecated_names_are_marked_and_last(
    open_editor: Callable[..., Any], tmp_path: Path
) -> None:
    items = [
        Name("torch.aaa", "function", deprecated="Since 1.0.", uses=9),
        Name("torch.bbb", "function"),
    ]
    path = _written(tmp_path, items)
    configuration = {"completion": {"mode": "full"}}
    editor = await open_editor(engine=f"index={path}", configuration=configuration)
    uri = editor.open("model.py", f"import torch\ntorch.\n{NET}")
    await editor.until_state("ready")
    found = await ask(editor, uri, types.Position(1, 6))
    assert labels(found) == ["bbb", "aaa"]
    assert list(merged(found, "aaa").tags or ()) == [types.CompletionItemTag.Deprecated]
    assert merged(found, "bbb").tags is None


async def test_an_item_that_is_looked_at(open_text: Any) -> None:
    editor, uri, position = await open_text("y = torch.ma|", mode="full")
    item = merged(await ask(editor, uri, position), "max")
    resolved = await editor.client.completion_item_resolve_async(item)
    assert resolved.label == "max" and resolved.sort_text == item.sort_text
    assert resolved.detail.startswith("max(")
    assert resolved.documentation.kind == types.MarkupKind.Markdown
    assert "The maximum of all elements" in resolved.documentation.value
    editor.edit(uri, "torch.ma", "torch.ops.aten.max.di")
    position.character += len("ops.aten.max.di") - len("ma")
    overload = merged(await ask(editor, uri, position), "dim")
    resolved = await editor.client.completion_item_resolve_async(overload)
    assert resolved.documentation.value.startswith("```python\naten::max.dim(")


async def test_a_keyword_that_is_looked_at(open_text: Any) -> None:
    editor, uri, position = await open_text("y = F.gelu(x, |)")
    found = await ask(editor, uri, position)
    assert labels(found) == ["approximate="]
    item = merged(found, "approximate=")
    assert item.kind == types.CompletionItemKind.Variable and item.filter_text == "approximate"
    resolved = await editor.client.completion_item_resolve_async(item)
    assert resolved.documentation.value.startswith("```python\napproximate:")


async def test_strings_that_an_argument_may_be(open_text: Any) -> None:
    editor, uri, position = await open_text("y = F.gelu(x, approximate='|')")
    assert labels(await ask(editor, uri, position)) == ["none", "tanh"]
    editor.edit(uri, "approximate=''", "approximate=")
    position.character -= 1
    assert labels(await ask(editor, uri, position)) == ['"none"', '"tanh"']


@pytest.mark.parametrize("data", [None, {}, {"uri": "file:///absent.py", "path": "torch.max"}, 3])
async def test_an_item_that_is_not_ours_comes_back_as_it_was(open_text: Any, data: Any) -> None:
    editor, _, _ = await open_text("|")
    item = types.CompletionItem("max", data=data)
    resolved = await editor.client.completion_item_resolve_async(item)
    assert (resolved.label, resolved.detail, resolved.documentation) == ("max", None, None)


async def test_a_long_list_is_cut_and_narrowed_by_typing(
    open_editor: Callable[..., Any], tmp_path: Path
) -> None:
    items = [
        Operator(f"aten::op_{number}", (Overload("", f"aten::op_{number}() -> ()", "native"),))
        for number in range(MAX_ITEMS * 3)
    ]
    path = _written(tmp_path, items)
    editor = await open_editor(engine=f"index={path}")
    uri = editor.open("model.py", f"import torch\ntorch.ops.aten.\n{NET}")
    await editor.until_state("ready")

    async def some() -> Any:  # so long an index takes a while to be read
        offered = await ask(editor, uri, types.Position(1, 15))
        return offered if offered.items else None

    found = await editor.until(some)
    assert found.is_incomplete and len(found.items) == MAX_ITEMS
    editor.edit(uri, "torch.ops.aten.", "torch.ops.aten.op_59")
    found = await ask(editor, uri, types.Position(1, 20))
    assert not found.is_incomplete
    assert {"op_59", *(f"op_59{digit}" for digit in range(10))} <= set(labels(found))


async def test_nothing_where_there_is_nothing_to_offer(open_text: Any) -> None:
    editor, uri, position = await open_text("y = 1  # torch.ops.aten.|")
    found = await ask(editor, uri, position)
    assert not found.items and not found.is_incomplete
    assert labels(await ask(editor, "file:///absent.py", types.Position(0, 0))) == []
    assert labels(await ask(editor, uri, types.Position(999, 999))) == []


async def test_nothing_before_there_is_an_index(open_text: Any) -> None:
    editor, uri, position = await open_text("torch.ops.|", engine="slow=0", mode="full")
    assert labels(await ask(editor, uri, position)) == []


async def test_while_the_text_does_not_parse(open_text: Any) -> None:
    editor, uri, position = await open_text("def f(x:\n    if torch.ops.aten.no|")
    assert labels(await ask(editor, uri, position)) == ["nonzero"]


def _written(folder: Path, items: list[Any]) -> Path:
    path = folder / "own.index"
    path.write_bytes(encode_index(map(entry_of, items), torch="", complete=True, overloads=0))
    return path
