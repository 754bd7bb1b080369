"""What values were when a text was last traced, as an editor shows it in the text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fullgraph.render.shapes import values_page
from fullgraph.results.shapes import ProbeShapes, ShapesByTarget
from fullgraph.session.hints import find_annotation, line_hints
from fullgraph.session.unit_view import UnitView
from fullgraph_engine.protocol import Position, Range
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen

NET = """\
class Net(nn.Module):
    def forward(self, x, n):  # seen: parameter x: f32[b, 16]
        y = x * 2  # seen: assigned y: f32[b, 16]
        y = y + 1  # seen: assigned y: f32[b, 16]
        k = n * 2  # seen: assigned k: (32)
        for part in y.split(1):  # seen: loop part: f32[1, 16]
            z = part.sum(0)  # seen: assigned z: f32[16] | f32[8] | f32[8]
        y = y.sum(1)  # seen: assigned y: f32[b]
        print(y.cos())  # seen: expression y.cos(): f32[b]
        return y + 1  # seen: return y + 1: f32[b]
"""
SHOWN = [
    "def forward(self, x: f32[b, 16], n):",
    "y: f32[b, 16] = x * 2",
    "for part: f32[1, 16] in y.split(1):",
    "z: f32[16] … f32[8] \N{MULTIPLICATION SIGN}3 = part.sum(0)",
    "y: f32[b] = y.sum(1)",
    "return y + 1-> f32[b]",
]


@pytest.fixture
async def opened(open_editor: Callable[..., Any]) -> Callable[..., Any]:
    async def start(text: str = NET, **how: Any) -> tuple[Any, str]:
        editor = await open_editor(**how)
        uri = editor.open("model.py", text)
        await editor.until(lambda: editor.hinted(uri))
        await editor.until_state("ready")
        return editor, uri

    return start


def tooltip(hint: types.InlayHint) -> str:
    assert isinstance(hint.tooltip, types.MarkupContent)
    return hint.tooltip.value


async def test_what_changes_is_hinted(opened: Any) -> None:
    editor, uri = await opened()
    assert await editor.hinted(uri) == SHOWN
    assert editor.offers.inlay_hint_provider.resolve_provider


async def test_only_the_lines_that_are_asked_for(opened: Any) -> None:
    editor, uri = await opened()
    assert await editor.hinted(uri, first=2, last=6) == SHOWN[1:3]
    assert await editor.hinted(uri, first=100, last=200) == []


async def test_settings_choose(opened: Any) -> None:
    editor, uri = await opened()
    before = len(editor.statuses)

    async def shown(**settings: Any) -> list[str]:
        editor.configure(interpreter=sys.executable, inlayHints=settings)

        async def changed() -> bool:
            last.append(await editor.hinted(uri))
            return last[-1] != last[-2]

        await editor.until(changed)
        return last[-1]

    last = [SHOWN]
    everything = await shown(shapes="all", constants=True)
    assert "y: f32[b, 16] = y + 1" in everything
    assert "k: 32 = n * 2" in everything
    assert len(everything) == len(SHOWN) + 2
    fewer = await shown(parameters=False, returns=False)
    assert fewer == SHOWN[1:-1]
    assert await shown(shapes="off") == []
    # None of that is a reason to trace again.
    assert not any(status["busy"] for status in editor.statuses[before:])


async def test_a_hint_moves_with_the_text_and_goes_with_its_line(
    open_editor: Callable[..., Any],
) -> None:
    editor = await open_editor(configuration={"traceOn": "manual"})
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyze", {"uri": uri})

    async def complete() -> bool:
        return bool(await editor.hinted(uri) == SHOWN)

    await editor.until(complete)
    editor.edit(uri, "class Net", "# a comment\n\nclass Net")
    assert await editor.hinted(uri) == SHOWN
    editor.edit(uri, "y = x * 2", "y = x * 3")
    # The next assignment to `y` is the first now of which something is known.
    assert await editor.hinted(uri) == [SHOWN[0], "y: f32[b, 16] = y + 1", *SHOWN[2:]]
    editor.edit(uri, "        k = n * 2  # seen: assigned k: (32)\n", "")
    assert await editor.hinted(uri) == [SHOWN[0], "y: f32[b, 16] = y + 1", *SHOWN[2:]]
    editor.edit(uri, "return y + 1  # seen", "return y +\\\n 1  # seen")
    assert await editor.hinted(uri) == [SHOWN[0], "y: f32[b, 16] = y + 1", *SHOWN[2:-1]]


async def test_what_is_known_besides_comes_when_it_is_looked_at(opened: Any) -> None:
    editor, uri = await opened()
    hints = await editor.hints(uri)
    assert all(hint.tooltip is None for hint in hints)
    resolved = await editor.client.inlay_hint_resolve_async(hints[1])
    assert "`y` : `f32[b, 16]`" in tooltip(resolved)
    assert "cpu · stride `(1)` · no grad · graph 2, node `node`" in tooltip(resolved)
    several = tooltip(await editor.client.inlay_hint_resolve_async(hints[3]))
    assert "`z` had 3 different values" in several and "- `f32[16]`" in several
    editor.edit(uri, "n * 2", "n * 3")
    late = await editor.client.inlay_hint_resolve_async(hints[1])
    assert late.tooltip is None


@pytest.mark.parametrize("profile_name", ["vscode"])
async def test_the_client_is_told_that_there_are_new_ones(opened: Any) -> None:
    editor, uri = await opened()
    await editor.until(lambda: editor.hint_refreshes)
    before = editor.hint_refreshes
    editor.edit(
        uri, "y.sum(1)  # seen: assigned y: f32[b]", "y.sum(1);  # seen: assigned y: f32[b, 1]"
    )
    await editor.until(lambda: editor.hint_refreshes > before)

    async def is_new() -> bool:
        return "y: f32[b, 1] = y.sum(1);" in await editor.hinted(uri)

    await editor.until(is_new)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_places_are_counted_as_the_client_counts(opened: Any, encoding: str) -> None:
    text = 'class Net(nn.Module):\n    a = "😀"; y = f(a)  # seen: assigned y: f32[b]\n'
    editor, uri = await opened(text, encoding=encoding)
    (hint,) = await editor.hints(uri)
    behind = text.index("y = f") + 1
    assert hint.position == editor.position(uri, behind)


async def test_the_shape_of_an_annotated_parameter_stands_after_its_annotation(opened: Any) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    def forward(self, x: dict[str, Tensor] = {}):  # seen: parameter x: f32[b, 16]\n"
        "        return x\n"
    )
    editor, uri = await opened(text)
    (hint,) = await editor.hints(uri)
    assert (hint.label, hint.padding_left) == ("f32[b, 16]", True)
    assert hint.position == editor.position(uri, text.index(" = {}"))
    assert "`x` : `f32[b, 16]`" in tooltip(await editor.client.inlay_hint_resolve_async(hint))


async def test_an_annotation_that_says_the_shape_has_no_hint(opened: Any) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    def forward(self, x: 'f32[b=4, 16]'):  # seen: parameter x: f32[b, 16]\n"
        "        y = x * 2  # seen: assigned y: f32[b, 16]\n"
    )
    editor, uri = await opened(text)
    assert [hint.label for hint in await editor.hints(uri)] == [": f32[b, 16]"]


async def test_hints_of_a_line_fit_into_what_the_editor_shows(opened: Any) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        y = f(x)  # seen: assigned y: f32[2, 64, 128, 128] | f32[2, 64, 64, 64]\n"
        "        z = g(x)  # seen: assigned z: f32[2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4]\n"
    )
    editor, uri = await opened(text)
    first, second = await editor.hints(uri)
    assert first.label == ": f32[2, 64, 128, 128] … [2, 64, 64, 64] \N{MULTIPLICATION SIGN}2"
    assert second.label == ": f32[2048, 1024, 512, 256, 128, 64, 32, …]"
    assert all(len(hint.label) <= 43 for hint in (first, second))
    whole = tooltip(await editor.client.inlay_hint_resolve_async(second))
    assert "f32[2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4]" in whole


def place(name: str, *texts: str, role: ShapeRole = "assigned", function: str = "f") -> PlaceShapes:
    values = tuple(ShapeSeen("tensor", text) for text in texts)
    return PlaceShapes(Range(Position(0, 0), Position(0, 1)), role, values, name, function)


def test_several_hints_of_a_line_share_its_room() -> None:
    three = [(place(name, "f32[2, 64, 128, 128]"), 1) for name in "abc"]
    labels = [hint.label for hint in line_hints(three, [None] * 3)]
    assert labels == [": f32[2, …]"] * 3
    short = [(place(name, "f32[2, 64]"), 1) for name in "abc"]
    assert [hint.label for hint in line_hints(short, [None] * 3)] == [": f32[2, 64]"] * 3


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("x: Tensor, y", "Tensor"),
        ("x : 'a, b' = 1", "'a, b'"),
        ("x: Callable[[int, str], Tensor]) -> None", "Callable[[int, str], Tensor]"),
        ("x: Tensor  # why\n", "Tensor"),
        ("x, y: int", None),
        ("x = 1", None),
    ],
)
def test_annotations_of_parameters_are_found(text: str, annotation: str | None) -> None:
    found = find_annotation(text, place("x", "f32[2]", role="parameter"), 1)
    assert (found and text[: found.end].endswith(found.text) and found.text) == annotation
    of_lambda = place("x", "f32[2]", role="parameter", function="f.<locals>.<lambda>")
    assert find_annotation(text, of_lambda, 1) is None


def test_two_targets_do_not_add_up() -> None:
    where = place("y", "f32[2]", "f32[3]", "f32[4]")
    targets = {
        name: ShapesByTarget((ProbeShapes(0, (where,)), ProbeShapes(1, (where,))))
        for name in ("Net", "Block")
    }
    view = UnitView(SimpleNamespace(results=SimpleNamespace(shapes=targets)))
    (shown,) = view.seen_shapes()
    counts = view.shape_counts(shown)
    assert counts == {"Net": 3, "Block": 3}
    (hint,) = line_hints([(shown, max(counts.values()))], [None])
    assert hint.label == ": f32[2] … f32[4] \N{MULTIPLICATION SIGN}3"
    page = values_page(shown, "y", counts)
    assert page.endswith("\n\nReached 3 times in `Net` and 3 times in `Block`.")
    assert "in all" not in page


async def test_hover_over_an_expression_and_a_local(opened: Any) -> None:
    editor, uri = await opened()

    async def over(before: str, after: str) -> tuple[str, str]:
        hover = await editor.hover(uri, before, after)
        return editor.at(uri, hover.range), hover.contents.value

    code, words = await over("print(y.c", "os())")
    assert code == "y.cos()"
    assert words.startswith("**Seen in the last trace**\n\n`y.cos()` : `f32[b]`")
    code, words = await over("k", " = n * 2")
    assert code == "k"
    assert "`k` = `32` (constant: a guard on `n` fixes it)" in words
    assert await editor.hover(uri, "class N", "et") is None


async def test_what_is_left_out_is_said_where_the_values_are(opened: Any) -> None:
    text = NET.replace("x * 2  # seen", "x * 2  # stub: too-many # seen")
    editor, uri = await opened(text)
    assert (await editor.titles(uri))[0].endswith(" · not all values are shown")
    hover = await editor.hover(uri, "print(y.c", "os())")
    assert hover.contents.value.endswith("\n\nNot all.")


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.parametrize("profile_name", ["vscode"])
async def test_with_the_torch_that_is_installed(open_editor: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    editor = await open_editor(server="real_server.py")
    text = (
        "import torch\n\n\n"
        "class Net(torch.nn.Module):\n"
        "    # fullgraph: f32[b=4, 8]\n"
        "    def forward(self, x):\n"
        "        y = x.flatten()\n"
        "        return y.reshape(2, -1)\n"
    )
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    assert await editor.until(lambda: editor.hinted(uri)) == [
        "def forward(self, x: f32[b, 8]):",
        "y: f32[8*b] = x.flatten()",
        "return y.reshape(2, -1)-> f32[2, 4*b]",
    ]
    hover = await editor.hover(uri, "y.resh", "ape")
    assert "here `f32[2, 16]`" in hover.contents.value


async def test_targets_on_the_screen_are_traced_first(
    editor: Any, counter: Any, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lines = [f"class Net(nn.Module):\n    pass  # until: {gate}\n", *("x = 1\n",) * 40]
    uri = editor.open("net.py", "import torch\n" + "".join(lines))
    await editor.until(lambda: counter.analyzed)
    await editor.hints(uri, 20, 30)
    await editor.hints(uri, 20, 30)
    await editor.hints(uri, 0, 1000)  # everything, as some clients ask
    await editor.hover(uri, "import t", "orch")
    gate.touch()
    await editor.until_rest()
    wanted = [line for line in counter.lines if line.startswith("prioritize")]
    assert wanted == ["prioritize 20 30", "prioritize 0 0"]
