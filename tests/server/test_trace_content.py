"""What clients draw: the graphs of a target, the breaks between them, and what was seen there."""

from __future__ import annotations

import asyncio
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
def profile_name() -> str:
    """What it says is the same for all; how content is asked for is tested without an engine."""
    return "vscode"


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


@pytest.mark.slow
async def test_the_course_of_a_target(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyze", uri)
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
    assert cut["outcome"] == "This line runs in Python; a new graph starts after it."
    assert cut["reproducible"] and not cut["through"]
    assert cut["title"].startswith("Dynamo does not trace `print`; remove it")
    assert cut["cost"].startswith("cuts 3 ops into 2 + 1")
    assert cut["explanation"].startswith("Failed to trace builtin operator. Dynamo does not know")
    assert {step["function"] for step in trace["steps"]} == {"Net.forward"}
    assert trace["ops"] == sum(step.get("ops", 0) for step in trace["steps"])
    assert trace["guards"] == sum(group["count"] for group in trace["guardGroups"])


async def test_verified_fixes_come_first_with_what_was_shown(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyze", uri)

    async def fixes_of_break() -> Any:
        _, cut, _ = (await ask(editor, uri, line=10))["steps"]
        return cut["fixes"]

    found = await editor.until(fixes_of_break)
    assert found[0]["title"] and found[0]["detail"].startswith("removes ")
    assert found[0]["edits"]


async def test_a_break_that_a_comment_hides_is_one_of_the_course(editor: Any) -> None:
    text = NET.replace('print("here")', 'print("here")  # fullgraph: ignore')
    uri = editor.open("model.py", text)
    await editor.command("fullgraph.server.analyze", uri)
    assert await editor.seen(uri) == []
    trace = await ask(editor, uri, line=10)
    _, cut, _ = trace["steps"]
    assert cut["explanation"] and cut["title"] != cut["code"]
    assert trace["remarks"] == []


@pytest.mark.slow
async def test_which_target_is_meant(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyze", uri)
    assert (await ask(editor, uri, line=17))["target"] == "other"
    assert (await ask(editor, uri, target="other", line=5))["target"] == "other"
    # Above all of them it is the first.
    assert (await ask(editor, uri, line=0))["target"] == "Net"
    assert (await ask(editor, uri))["target"] == "Net"
    assert await ask(editor, "file:///nowhere.py") is None


MODEL = """\
import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        y = self.linear(x)
        print("here")
        return y


class Unused(nn.Module):
    def forward(self, x):
        return x + {}["nothing"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x: "f32[4, 16]"):
        y = x + 1
        return self.layer(y)
"""


@pytest.mark.slow
async def test_a_layer_belongs_to_the_model_that_it_was_traced_with(editor: Any) -> None:
    text = MODEL.replace("\n\nclass Layer", "\n# fullgraph: off\nclass Layer")
    uri = editor.open("model.py", text)
    await editor.command("fullgraph.server.analyze", uri)
    assert (await ask(editor, uri, line=10))["target"] == "Model"
    editor.edit(uri, "# fullgraph: off\n", "\n")
    await editor.command("fullgraph.server.analyze", uri)
    alone = await ask(editor, uri, line=10)
    assert alone["target"] == "Layer"
    assert alone["probe"] == "f32[4, 16] as called by Model.forward, line 28"
    unused = await ask(editor, uri, line=16)
    assert (unused["target"], unused["status"]) == ("Unused", "no-probe")
    assert unused["remarks"][0]["code"] == "probe/missing" and unused["remarks"][0]["fixes"]


@pytest.mark.slow
async def test_a_call_that_is_left_to_python_stands_at_its_place(editor: Any) -> None:
    uri = editor.open("model.py", MODEL)
    await editor.command("fullgraph.server.analyze", uri)
    trace = await ask(editor, uri, target="Model")
    call, cut = [step for step in trace["steps"] if step["kind"] == "break"]
    assert (call["through"], cut["through"]) == (True, False)
    assert call["text"] == "return self.layer(y)" and cut["text"] == 'print("here")'
    assert call["outcome"].endswith("and the break is inside it.")


PROBES = """\
import torch


# fullgraph: f32[4]
# fullgraph: f32[2, 3]
# fullgraph: f32[2, 3, 4]
def f(x):
    y = x * 2
    if x.dim() == 2:
        print("here")
        y = y + 1
    if x.dim() == 3:
        y = y.no_such_thing
    return y
"""


@pytest.mark.slow
async def test_each_probe_has_its_own_course(editor: Any) -> None:
    uri = editor.open("model.py", PROBES)
    await editor.command("fullgraph.server.analyze", uri)
    first, second, third = [await ask(editor, uri, target="f", run=run) for run in range(3)]
    for number, trace in enumerate((first, second, third)):
        assert (trace["run"], trace["number"]) == (number, number)
        assert [run["probe"] for run in trace["runs"]] == [
            "f32[4] from line 4",
            "f32[2, 3] from line 5",
            "f32[2, 3, 4] from line 6",
        ]
        assert [run["breaks"] for run in trace["runs"]] == [0, 1, 0]
        assert trace["probe"] == trace["runs"][trace["run"]]["probe"]
        assert trace["guards"] == sum(group["count"] for group in trace["guardGroups"])
    # What one run met is no finding of another.
    assert [[remark["code"] for remark in one["remarks"]] for one in (first, second)] == [[], []]
    assert [remark["code"] for remark in third["remarks"]] == ["probe/invalid"]
    assert [step["kind"] for step in first["steps"]] == ["graph"]
    assert [step["kind"] for step in second["steps"]] == ["graph", "break", "graph"]
    assert first["steps"][0]["lines"][0]["shapes"] == ["y: f32[4]"]
    assert second["steps"][0]["lines"][0]["shapes"] == ["y: f32[2, 3]"]
    # A cursor on a comment means the run with that probe.
    on_comment = [await ask(editor, uri, line=line) for line in (3, 4, 5)]
    assert [(one["target"], one["run"], one["atProbe"]) for one in on_comment] == [
        ("f", 0, True),
        ("f", 1, True),
        ("f", 2, True),
    ]
    by_number = await ask(editor, uri, target="f", probe=1)
    assert (by_number["run"], by_number["atProbe"]) == (1, True)
    below = await ask(editor, uri, line=7)
    assert (below["run"], below["atProbe"]) == (0, False)
    # There is no fourth one.
    assert (await ask(editor, uri, target="f", run=3))["run"] == 2


SLOW = """\
import time

import torch


def slow(x: "f32[4]"):
    time.sleep(600)
    return x + 1
"""


@pytest.mark.slow
async def test_a_target_that_is_traced_for_the_first_time(editor: Any) -> None:
    uri = editor.open("model.py", SLOW)

    async def until(target: str) -> Any:
        while (trace := await ask(editor, uri, line=6)) is None or trace["target"] != target:
            if trace is not None:
                assert trace["status"] == "tracing" and trace["busy"]
            await asyncio.sleep(0.1)
        return trace

    await until("")
    trace = await until("slow")
    assert (trace["status"], trace["runs"], trace["steps"]) == ("tracing", [], [])
    assert trace["targets"] == ["slow"]
    assert trace["range"]["start"] == {"line": 5, "character": 4}
    await editor.command("fullgraph.server.cancel")
    while (trace := await ask(editor, uri)) is not None:
        assert trace["busy"]
        await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_lines_move_with_the_text(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.command("fullgraph.server.analyze", uri)
    editor.edit(uri, "import torch\n", "# one more line\nimport torch\n")
    trace = await ask(editor, uri, target="Net")
    first, cut, second = trace["steps"]
    assert [line["line"] for line in first["lines"]] == [11, 12]
    assert cut["range"]["start"]["line"] == 13
    assert [line["line"] for line in second["lines"]] == [14]
