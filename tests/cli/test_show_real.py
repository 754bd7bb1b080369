"""``fullgraph show`` with torch: what is in the documents of real runs."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from fullgraph.engines import Engine
from fullgraph.render.documents import DocumentDraft, document_request
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import resolve_settings
from fullgraph_engine.protocol import Analyze, Limits, TargetDone, TargetReport
from fullgraph_engine.protocol.documents import DocumentKind

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

DEMO = Path(__file__).parents[1] / "fixtures" / "demo" / "tiny_gpt.py"

NET = """\
import torch
import torch.nn as nn


class Inner(nn.Module):
    def forward(self, x):
        y = x * 2
        print("inner")
        return y.relu()


# fullgraph: f32[b=4, 16]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.inner = Inner()

    def forward(self, x):
        y = self.layer(x)
        z = self.inner(y)
        return z.view(x.shape[0] * 2, 8) + 1
"""


HALVES = """\
import torch


# fullgraph: f32[b=4, s=8]
def halves(x):
    y = x * 2 if x.shape[1] > 3 else x
    return y.view(x.shape[0] * 2, -1)
"""


async def _drafts(requests: Sequence[Analyze]) -> list[DocumentDraft]:
    engine = Engine(Path(sys.executable), back_off=())
    await engine.start()
    drafts = []
    try:
        for request in requests:
            drafts.append(DocumentDraft("events", "halves", request.text))
            async for event in engine.analyze(request):
                drafts[-1].apply_event(event)
    finally:
        await engine.close()
    return drafts


def events_of(text: str) -> Analyze:
    settings = resolve_settings().settings
    request = analyze_request(
        name="halves.py", text=text, generation="1", settings=settings, project=None
    )
    return dataclasses.replace(document_request(request, "events"), save_events=True)


@pytest.mark.slow
def test_events_are_compared_with_those_of_an_earlier_run() -> None:
    (before,) = asyncio.run(_drafts([events_of(HALVES)]))
    (saved,) = before.saved
    asked = [events_of(HALVES), events_of(HALVES.replace("> 3", "> 5")), events_of(HALVES)]
    broken = dataclasses.replace(saved, archive="{}")
    compared = [
        dataclasses.replace(one, compare_events=(old,))
        for one, old in zip(asked, (saved, saved, broken), strict=True)
    ]
    same, other, unreadable = asyncio.run(_drafts(compared))
    assert (same.differs, other.differs, unreadable.differs) == (False, True, True)
    assert re.search(r"No difference from the saved events: \d+ ", same.build_text("halves.py"))
    text = other.build_text("halves.py")
    assert re.search(r"Event \d+ has changed; the saved event was: evaluate_expr\(s\d+ > 3", text)
    assert "line 6: y = x * 2 if x.shape[1] > 5 else x" in text
    assert re.search(r"guards: s\d+ > 3 before, s\d+ > 5 now", text)
    assert "Cannot compare with the saved events: " in unreadable.build_text("halves.py")


def test_events_say_why_a_size_is_a_constant() -> None:
    (draft,) = asyncio.run(_drafts([events_of(HALVES.replace("> 3", "== 8"))]))
    assert re.search(r"`x.shape\[1\]` \(s\d+\) became 8 at line 6", draft.build_text("halves.py"))


async def _written(
    requests: Sequence[tuple[Analyze, DocumentKind]], target: str
) -> list[tuple[str, TargetReport]]:
    engine = Engine(Path(sys.executable), back_off=())
    await engine.start()
    found = []
    try:
        for request, kind in requests:
            draft = DocumentDraft(kind, target, request.text)
            async for event in engine.analyze(request):
                draft.apply_event(event)
                if isinstance(event, TargetDone):
                    report = event.report
            found.append((draft.build_text("model.py"), dataclasses.replace(report, seconds=0)))
    finally:
        await engine.close()
    return found


def written(
    text: str, target: str, *kinds: DocumentKind, path: str = "/nowhere/model.py", **changes: object
) -> dict[str, str]:
    """The documents of a target; that they are wanted changes nothing else."""
    plain = analyze_request(
        name=path, text=text, generation="v", settings=resolve_settings().settings, project=None
    )
    # Documents are of the first run: what other paths add to its report is not in theirs.
    parts = tuple(part for part in plain.parts if part != "paths")
    plain = dataclasses.replace(plain, only=(target,), parts=parts, **changes)  # type: ignore[arg-type]
    requests = [(document_request(plain, kind), kind) for kind in kinds]
    wanted = asyncio.run(_written([*requests, (plain, kinds[0])], target))
    texts, reports = zip(*wanted, strict=True)
    assert len(set(reports)) == 1
    return dict(zip(kinds, texts, strict=False))


@pytest.fixture(scope="module")
def net() -> dict[str, str]:
    return written(NET, "Net", "graph", "bytecode", "events", "guards")


@pytest.mark.slow
def test_graph_code_is_python_with_the_lines_it_comes_from(net: dict[str, str]) -> None:
    code = net["graph"]
    ast.parse(code)
    assert code.startswith("# fullgraph: off\n\n# Graphs of `Net`")
    assert "f32[b=4, 16]" in code.split("\n")[3] and "4 graphs" in code.split("\n")[3]
    # Inputs by the names that the user gave them.
    assert re.search(r"l_self_modules_layer_parameters_weight_: \S+ \S+ +# self.layer.weight", code)
    assert "# x.shape[0]" in code
    assert re.search(r"# line 20: y = self.layer\(x\)\n +\w+: \"f32\[s\d+, 16\]\" = ", code)
    assert ";  " not in code and "# File:" not in code


def test_graph_code_says_where_it_breaks(net: dict[str, str]) -> None:
    titles = re.findall(r"^# (Graph \d+: .*)$", net["graph"], re.M)
    assert titles[0] == "Graph 1: Net.forward, line 19 (1 op)"
    assert [title.partition(": ")[2].partition(" (")[0] for title in titles[1:]] == [
        "Inner.forward, line 6",
        "Inner.forward, from line 8",
        "Net.forward, from line 21",
    ]
    first, inner = re.findall(r"# graph break in .*\n(?:#  .*\n)+", net["graph"])
    assert first == (
        "# graph break in line 21: z = self.inner(y)\n"
        '#   inside, in Inner.forward, line 8: print("inner")\n'
        "#   GB0059 Failed to trace builtin operator\n"
        "#   -> this line runs in Python; a new graph starts after it\n"
    )
    assert inner.startswith('# graph break in line 8: print("inner")\n#   GB0059 ')


def test_bytecode_before_and_after(net: dict[str, str]) -> None:
    text = net["bytecode"]
    titles = re.findall(r"^(.*) \(\d+ instructions, \d+ after Dynamo\)$", text, re.M)
    assert titles[:2] == ["Net.forward, line 19", "Inner.forward, line 6"]
    original, _, transformed = text.partition("\ntransformed\n")
    assert re.search(r"^ +20  y = self.layer\(x\)\n.*LOAD_FAST +0 \(self\)$", original, re.M)
    assert "__compiled_fn" in transformed and "__compiled_fn" not in original


def test_events_by_line(net: dict[str, str]) -> None:
    text = net["events"]
    assert re.search(r"^ShapeEnv \d+: Net.forward, line 19\n=+\nline 20: y = ", text, re.M)
    assert re.search(r"sizes of x are \(s\d+, 16\)\n +new symbol: s\d+ = 4, in \[2, ", text)


def test_guards_in_the_users_words(net: dict[str, str]) -> None:
    assert net["guards"].startswith("Guards of `Net`")
    assert "self.layer.weight" in net["guards"] and "L['self']" not in net["guards"]


@pytest.mark.slow
def test_a_run_that_dies_half_way_still_shows_what_it_learned() -> None:
    text = NET.replace('        print("inner")\n', '        print("inner")\n        self.hang()\n')
    text = text.replace(
        "class Inner(nn.Module):\n",
        "class Inner(nn.Module):\n"
        "    @torch.compiler.disable\n    def hang(self):\n        while True: pass\n\n",
    )
    limits = Limits(seconds=6)
    found = written(text, "Net", "graph", "bytecode", "events", limits=limits)
    assert "class Graph1(torch.nn.Module):" in found["graph"]
    assert "Net.forward" in found["bytecode"]
    assert re.search(r"sizes of x are \(s\d+, 16\)", found["events"])
    for one in found.values():
        assert one.endswith("so something may be missing: it did not end within 6 seconds.\n")


@pytest.mark.slow
def test_the_demo() -> None:
    found = written(DEMO.read_text(), "TinyGPT", "graph", path=str(DEMO))["graph"]
    ast.parse(found)
    # The attempt on fake tensors is not what counts in the end.
    assert "real tensors" in found and "Graph 0" not in found
    assert found.count("class Graph") == int(re.search(r"(\d+) graphs", found)[1])  # type: ignore[index]
    assert "line 90: x = block(x)" in found and "Block.forward, line 69" in found
