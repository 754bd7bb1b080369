"""What clients draw: the graphs of a target, the breaks between them, and what was seen there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
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
        z = y.relu()
        print("here")
        return z + 1


def other(x: "f32[2]"):
    return x * 2
"""


@pytest.fixture
async def editor(open_editor: Any) -> AsyncIterator[Any]:
    yield await open_editor(server="real_server.py")


async def ask(editor: Any, uri: str, **what: Any) -> Any:
    answer = await editor.client.protocol.send_request_async(
        "fullgraph/trace", {"uri": uri, **what}
    )
    return plain(answer)


def plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


async def test_the_course_of_a_target(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyse", uri)
    trace = await ask(editor, uri, line=10)
    assert (trace["target"], trace["targets"]) == ("Net", ["Net", "other"])
    first, cut, second = trace["steps"]
    assert [step["kind"] for step in (first, cut, second)] == ["graph", "break", "graph"]
    assert [(line["line"], line["ops"]) for line in first["lines"]] == [(10, 1), (11, 1)]
    assert first["lines"][1]["text"] == "z = y.relu()"
    assert first["lines"][1]["shapes"] == ["z: f32[4, 16]"]
    assert (first["ops"], first["elsewhere"], first["number"]) == (2, 0, 1)
    assert first["seconds"] > 0
    assert [line["line"] for line in second["lines"]] == [13]
    assert cut["code"].startswith("graph-break/")
    assert editor.texts[uri].split("\n")[cut["range"]["start"]["line"]].strip() == cut["text"]
    assert cut["text"] == 'print("here")'
    assert cut["outcome"] and cut["reproducible"] and not cut["through"]
    assert trace["ops"] == sum(step.get("ops", 0) for step in trace["steps"])
    assert trace["guards"] == sum(group["count"] for group in trace["guardGroups"])


async def test_which_target_is_meant(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyse", uri)
    assert (await ask(editor, uri, line=17))["target"] == "other"
    assert (await ask(editor, uri, target="other", line=5))["target"] == "other"
    # Above all of them it is the first.
    assert (await ask(editor, uri, line=0))["target"] == "Net"
    assert (await ask(editor, uri))["target"] == "Net"
    assert await ask(editor, "file:///nowhere.py") is None


async def test_lines_move_with_the_text(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyse", uri)
    editor.edit(uri, "import torch\n", "# one more line\nimport torch\n")
    trace = await ask(editor, uri, target="Net")
    first, cut, second = trace["steps"]
    assert [line["line"] for line in first["lines"]] == [11, 12]
    assert cut["range"]["start"]["line"] == 13
    assert [line["line"] for line in second["lines"]] == [14]
