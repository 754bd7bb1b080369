"""The whole way: an editor, the server, the engine, torch."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    # Not importorskip, which would import torch into every session of tests.
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

NET = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: "f32[4, 16]"):
        y = self.layer(x)
        if y.sum() > 0:
            return y + 1
        return y - 1
"""


@pytest.fixture
def profile_name() -> str:
    """Where a test does not say another: who pulls and who is pushed to get the same."""
    return "neovim"


@pytest.fixture
async def editor(open_editor: Any) -> AsyncIterator[Any]:
    yield await open_editor(server="real_server.py")


def codes(diagnostics: list[Any]) -> list[str]:
    return sorted(str(diagnostic.code).split("/")[0] for diagnostic in diagnostics)


async def settled(editor: Any, uri: str) -> list[tuple[str, str]]:
    answer = await editor.command("fullgraph.server.analyze", uri)
    assert answer["completed"], answer
    return [(str(d.code), editor.at(uri, d.range)) for d in await editor.diagnostics(uri)]


@pytest.mark.slow
@pytest.mark.parametrize("profile_name", ["neovim", "vscode"])
async def test_from_typing_to_the_squiggle(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    found = await settled(editor, uri)
    # Before Python 3.11 code has no columns.
    marked = "y.sum() > 0" if sys.version_info >= (3, 11) else "if y.sum() > 0:"
    assert [(code.split("/")[0], text) for code, text in found] == [("graph-break", marked)]
    title, guards, measure = await editor.titles(uri)
    assert guards.endswith(" guards") and measure == "make faster"
    assert "1 break" in title and "f32[4, 16]" in title
    editor.edit(uri, "if y.sum() > 0:", "if y.shape[0] > 0:")

    async def without_breaks() -> bool:
        title, *_ = await editor.titles(uri)
        return bool(title.startswith("1 graph · no breaks"))

    await editor.until(without_breaks)
    assert await editor.seen(uri) == []
    assert {status["state"] for status in editor.statuses} >= {"starting", "tracing", "ready"}


@pytest.mark.slow
async def test_a_probe_that_was_found_can_be_written(editor: Any) -> None:
    text = NET.replace('x: "f32[4, 16]"', "x")
    uri = editor.open("model.py", text)
    found = await settled(editor, uri)
    assert "probe/missing" not in [code for code, _ in found]
    actions = await editor.actions(uri, "Net")
    (action,) = [one for one in actions if one.title.startswith("Write the probe: ")]
    (edit,) = editor.edits(uri, action)
    lines = text.split("\n")
    before = "\n".join(lines[: edit.range.start.line])
    offset = len(before) + 1 + edit.range.start.character if edit.range.start.line else 0
    assert edit.range.start == edit.range.end
    editor.replace(uri, text[:offset] + edit.new_text + text[offset:])
    assert await settled(editor, uri) == found
    assert "# fullgraph:" in editor.texts[uri]
    # The probe is right below.
    assert (await editor.titles(uri))[0] == "2 graphs · 1 break"


async def test_a_syntax_error_and_a_missing_import(editor: Any) -> None:
    uri = editor.open("model.py", "import not_there_at_all\n" + NET)
    found = await settled(editor, uri)
    assert ("trace/import-error", "not_there_at_all") in found
    assert any(code.startswith("graph-break/") for code, _ in found)
    editor.edit(uri, "class Net(nn.Module):", "class Net(nn.Module:")
    editor.save(uri)
    await editor.until_state("ready")


@pytest.mark.slow
async def test_hostile_files_leave_a_server_that_works(editor: Any) -> None:
    exits = editor.open("exits.py", "import os\nos._exit(3)\n" + NET)
    found = await settled(editor, exits)
    assert any(code.startswith("trace/") for code, _ in found), found
    prints = editor.open("prints.py", "print('hello there')\ninput()\n" + NET)
    await settled(editor, prints)
    await editor.until(lambda: any("hello there" in m.message for m in editor.client.log_messages))
    uri = editor.open("model.py", NET)
    assert [code.split("/")[0] for code, _ in await settled(editor, uri)] == ["graph-break"]


@pytest.mark.slow
async def test_an_endless_loop_is_ended_by_the_next_edit(editor: Any) -> None:
    uri = editor.open("model.py", NET.replace("y = self.layer(x)", "while True: pass"))
    await editor.until_state("tracing")
    editor.replace(uri, NET)
    found = await settled(editor, uri)
    assert [code.split("/")[0] for code, _ in found] == ["graph-break"]


@pytest.mark.slow
async def test_untitled_and_wide_characters(editor: Any) -> None:
    text = NET.replace("if y.sum() > 0:", 'if "é😀" and y.sum() > 0:')
    uri = editor.open("untitled:Untitled-1", text)
    found = await settled(editor, uri)
    assert len(found) == 1 and "y.sum() > 0" in found[0][1]


@pytest.mark.slow
async def test_check_says_the_same(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    (editor.root / "model.py").write_text(NET)
    await settled(editor, uri)
    shown = [
        (d.code, d.range.start.line, d.message.split("\n")[0])
        for d in await editor.diagnostics(uri)
    ]
    script = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([f"{script}/server", f"{script}/engine"]),
    }
    command = "import sys; from fullgraph.cli import main; sys.exit(main())"
    output = subprocess.run(
        [
            *(sys.executable, "-c", command, "check", "--format", "json"),
            *("--python", sys.executable, "model.py"),
        ],
        cwd=editor.root,
        env=environment,
        capture_output=True,
        text=True,
    )
    findings = json.loads(output.stdout)["files"][0]["findings"]
    assert shown == [(f["code"], f["range"]["start"]["line"], f["message"]) for f in findings]


async def until_marked(editor: Any, uri: str, *texts: str) -> None:
    """Wait until the file's graph breaks are at these texts."""
    while True:
        found = await editor.diagnostics(uri)
        breaks = [d for d in found if str(d.code).startswith("graph-break")]
        if [editor.at(uri, d.range) for d in breaks] == list(texts):
            return
        await asyncio.sleep(0.05)


async def test_what_is_typed_in_one_file_is_what_others_import(editor: Any) -> None:
    blocks = "import torch\n\n\ndef scaled(x):\n    return x * 2\n"
    editor.root.joinpath("blocks.py").write_text(blocks)
    model = NET.replace("import torch\n", "import torch\nfrom blocks import scaled\n", 1)
    model = model.replace("        if y.sum() > 0:\n            return y + 1\n", "").replace(
        "y - 1", "scaled(y)"
    )
    uri, imported = editor.open("model.py", model), editor.open("blocks.py", blocks)
    assert await settled(editor, uri) == []
    editor.edit(imported, "return x * 2", "print(x)\n    return x * 2")
    await until_marked(editor, uri, "scaled(y)")
    # What is broken is not imported.
    editor.edit(imported, "print(x)", "print(x")
    editor.edit(uri, "scaled(y)", "scaled(y + 1)")
    await until_marked(editor, uri, "scaled(y + 1)")
    editor.edit(imported, "print(x", "len(x.shape)")
    await until_marked(editor, uri)
