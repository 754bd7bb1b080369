"""Hover over names and operators, as an editor asks for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from .operator_pages import write_index

IMPORTS = "import torch\nimport torch.nn.functional as F\n"
NET = "class Net(nn.Module):\n    call()\n"


def content(hover: types.Hover | None) -> str:
    assert hover is not None and isinstance(hover.contents, types.MarkupContent)
    return hover.contents.value


@pytest.fixture
async def open_text(open_editor: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a text in an editor whose engine has an operator index."""
    path = write_index(tmp_path / "operators.index")

    async def start(text: str, *, engine: str = "", **how: Any) -> tuple[Any, str]:
        editor = await open_editor(engine=engine or f"index={path}", **how)
        uri = editor.open("model.py", IMPORTS + text + NET)
        await editor.until_state("ready")
        if not engine:
            await editor.until_index(uri)
        return editor, uri

    return start


async def test_a_function(open_text: Any) -> None:
    editor, uri = await open_text("y = torch.max(x, 1)\n")
    hover = await editor.hover(uri, "torch.m", "ax")
    assert hover.contents.kind == types.MarkupKind.Markdown
    assert content(hover).startswith("```python\n1  torch.max(input: Tensor, *, out: ")
    assert editor.at(uri, hover.range) == "torch.max"
    assert editor.offers.hover_provider


async def test_what_a_graph_break_costs(open_text: Any) -> None:
    text = "class Other(nn.Module):\n    stop()  # break: A break\n    # cost: 5 7\n"
    editor, uri = await open_text(text)
    hover = await editor.hover(uri, "    st", "op()")
    assert content(hover).startswith("**Cost of this graph break** in one call of `Other`\n\n")
    assert "- in `forward`: cuts 12 ops into 5 + 7" in content(hover)
    assert editor.at(uri, hover.range) == "stop()"


async def test_a_finding_comes_first(open_text: Any) -> None:
    def bare(capabilities: types.ClientCapabilities) -> None:
        capabilities.experimental = {"hoverFindings": True}

    text = "class Broken(nn.Module):\n    torch.max(x, 1)  # break: A break\n    # fix: mended()\n"
    editor, uri = await open_text(text, name="neovim", adjust=bare)
    page = content(await editor.hover(uri, "torch.m", "ax"))
    reason, dynamo, rest = page.split("\n\n---\n\n", 2)
    assert dynamo.startswith("Dynamo: ")
    assert reason.startswith("**A break**") and "- Write mended()" in reason
    assert "graph-break/GB0059" in reason and rest.startswith("```python\n")
    # Links before what a window has no room for.
    assert rest.index("[Documentation](") < rest.index("\n#### ")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_places_are_counted_as_the_client_counts(open_text: Any, encoding: str) -> None:
    editor, uri = await open_text('y = "😀é", torch.ops.aten.max.dim\n', encoding=encoding)
    hover = await editor.hover(uri, "torch.ops.aten.max.d", "im")
    assert editor.at(uri, hover.range) == "torch.ops.aten.max.dim"
    assert content(hover).startswith("```python\naten::max.dim(Tensor self, int dim,")
    packet = await editor.hover(uri, "torch.ops.aten.ma", "x.dim")
    assert editor.at(uri, packet.range) == "torch.ops.aten.max"


async def test_an_alias_and_a_parameter(open_text: Any) -> None:
    editor, uri = await open_text("y = F.gelu(x, approximate='tanh')\n")
    assert "torch.nn.functional.gelu(" in content(await editor.hover(uri, "F.ge", "lu"))
    shown = content(await editor.hover(uri, "appro", "ximate"))
    assert shown.startswith('```python\napproximate: "none" | "tanh" = "none"\n```')


async def test_a_method_says_how_certain_it_is(open_text: Any) -> None:
    editor, uri = await open_text("def f(x):\n    return x.add_(1)\n")
    shown = content(await editor.hover(uri, "x.ad", "d_"))
    assert "Tensor.add_(other: Tensor) -> Tensor" in shown
    assert "Assumed to be a method of Tensor: " in shown


async def test_strings_that_name_an_operator_or_hold_a_schema(open_text: Any) -> None:
    editor, uri = await open_text(
        "torch.library.define('mine::scale', '(Tensor(a!) x, float by=2.) -> ()')\n"
        "torch.library.define('mine::other', '(Tensor(a!) x) -> Tensor')\n"
        "print('mine::scale', '(Tensor y) -> Tensor')\n"
    )
    named = await editor.hover(uri, "define('mine::sc", "ale")
    assert editor.at(uri, named.range) == "'mine::scale'"
    assert content(named).startswith("```python\nmine::scale(")
    schema = await editor.hover(uri, "'(Tensor(a!) x, fl", "oat")
    assert "**no fake kernel**" in content(schema)
    written = content(await editor.hover(uri, "'(Ten", "sor(a!) x) ->"))
    assert written.startswith("```python\nmine::other(Tensor(a!) x) -> Tensor\n```")
    assert "`x` is written to" in written
    assert await editor.hover(uri, "print('mine::sc", "ale") is None
    assert await editor.hover(uri, "'(Ten", "sor y)") is None


async def test_nothing_where_there_is_nothing_to_say(open_text: Any) -> None:
    editor, uri = await open_text("# torch.max\ny = torch.nothing  # here\n")
    assert await editor.hover(uri, "torch.no", "thing") is None
    assert await editor.hover(uri, "he", "re") is None
    assert await editor.hover(uri, "# torch.m", "ax") is None
    elsewhere = types.HoverParams(
        types.TextDocumentIdentifier("file:///absent.py"), types.Position(0, 0)
    )
    assert await editor.client.text_document_hover_async(elsewhere) is None


async def test_nothing_before_there_is_an_index(open_text: Any) -> None:
    editor, uri = await open_text("y = torch.max(x)\n", engine="slow=0")
    assert await editor.hover(uri, "torch.m", "ax") is None


async def test_what_is_known_is_shown_while_torch_is_imported(
    open_editor: Callable[..., Any], tmp_path: Path
) -> None:
    path = write_index(tmp_path / "static.index", complete=False)
    editor = await open_editor(engine=f"static={path},slow=600")
    uri = editor.open("model.py", IMPORTS + "y = torch.max(x)\n" + NET)
    hover = await editor.until(lambda: editor.hover(uri, "torch.m", "ax"))
    assert "not yet compared with the imported torch" in content(hover)


async def test_plain_text_where_the_client_wants_it(open_text: Any) -> None:
    def without_markdown(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.hover = types.HoverClientCapabilities(
            content_format=[types.MarkupKind.PlainText]
        )

    editor, uri = await open_text("y = torch.max(x)\n", adjust=without_markdown)
    hover = await editor.hover(uri, "torch.m", "ax")
    assert hover.contents.kind == types.MarkupKind.PlainText
    assert "`" not in content(hover) and "Schemas\n  aten::max(" in content(hover)


async def test_while_the_text_does_not_parse(open_text: Any) -> None:
    editor, uri = await open_text("y = torch.max(x)\n")
    editor.edit(uri, "torch.max(x)", "torch.max(x, [\ndef")
    assert "torch.max(" in content(await editor.hover(uri, "torch.m", "ax"))


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.parametrize("profile_name", ["vscode"])
async def test_with_the_torch_that_is_installed(open_editor: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    editor = await open_editor(server="real_server.py")
    text = (
        "import torch\n\n\n"
        "@torch.library.custom_op('hovered::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n\n"
        "class Net(torch.nn.Module):\n"
        "    # fullgraph: f32[4]\n"
        "    def forward(self, x):\n"
        "        y = x.nonzero()\n"
        "        return y.add(1)\n\n\n"
        "def unknown(z):\n    return torch.ops.hovered.twice(z).add(z.add_(1))\n"
    )
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    traced = "The receiver was a Tensor in the last trace."

    async def after_the_trace() -> Any:
        shown = await editor.hover(uri, "x.non", "zero()")
        return shown if shown is not None and traced in content(shown) else None

    shown = await editor.until(after_the_trace)
    assert "**dynamic output shape**" in content(shown)
    registered = content(await editor.hover(uri, "hovered.tw", "ice(z)"))
    assert "**no fake kernel**" in registered
    assert '`@torch.library.register_fake("hovered::twice")`' in registered
    # Before Python 3.11 a decorator is called on the line of what it decorates.
    line = 4 if sys.version_info >= (3, 11) else 5
    assert f"model.py:{line}`." in registered
    guessed = content(await editor.hover(uri, "z.ad", "d_(1)"))
    assert traced not in guessed and "writes to `self`" in guessed
