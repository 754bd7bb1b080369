"""Which expressions and locals were tensors while Dynamo traced a file."""

from __future__ import annotations

import asyncio
import linecache
import re
import sys
import textwrap
import types
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph.engines.engine import Engine
from fullgraph_engine import tracing
from fullgraph_engine.findings import values
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.protocol import (
    Analyze,
    Event,
    FindingFound,
    Mode,
    Range,
    RunId,
    SeenValue,
    TargetDone,
    ValuesSeen,
    decode,
    encode,
)
from fullgraph_engine.tracing import variables
from fullgraph_engine.tracing.recording import Recording

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]
COLUMNS = pytest.mark.skipif(sys.version_info < (3, 11), reason="bytecode has no columns")

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.ones(3))
        self.linear = nn.Linear(3, 3)
        self.__hidden = torch.ones(3)

    @property
    def twice(self):
        return self.table.mul(2)

    def forward(self, x, flag=True, *rest, scale=2.0, **more):
        items = [x]
        items.append(self.weight.abs())
        y = (
            self.linear.weight
            .sum()
            .relu()
        )
        n = x.shape.numel()
        é = "ä".upper(); y = y + x.cos().sin() + self.__hidden.sum()
        print("a graph break", y.dtype)
        for item in items:
            y = y + item.tanh() * self.twice.mean()

        def inner(q):
            captured = y.detach()
            return q.exp() + captured

        z = inner(y.view(-1))
        total = [part.floor() for part in z.split(1)]
        return z, n, total
"""


class Module:
    """A text, executed as if it were a file."""

    def __init__(self, text: str) -> None:
        self.text = textwrap.dedent(text)
        self.path = "/nowhere/model.py"
        self.names = types.ModuleType("model").__dict__
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.path] = (len(self.text), None, lines, self.path)
        exec(compile(self.text, self.path, "exec"), self.names)

    def trace(self, call: str, *args: Any, fake: bool = False) -> Recording:
        with tracing.tensor_mode(fake):
            function = eval(call, self.names)
            return tracing.trace(function, args, {}, file=self.path)

    def seen(self, recording: Recording) -> tuple[SeenValue, ...]:
        assert recording.failure is None
        assert not recording.losses
        return values.seen_values(recording, SourceText(self.path, self.text))

    def at(self, range_: Range) -> str:
        """The text of a range, without the breaks between its lines."""
        lines = [line.encode() for line in self.text.split("\n")]
        start, end = range_.start, range_.end
        if start.line == end.line:
            return lines[start.line][start.byte : end.byte].decode()
        middle = lines[start.line + 1 : end.line]
        parts = [lines[start.line][start.byte :], *middle, lines[end.line][: end.byte]]
        return "".join(part.decode().strip() for part in parts)

    def expressions(self, seen: tuple[SeenValue, ...]) -> set[tuple[str, str]]:
        return {(self.at(value.range), value.kind) for value in seen if not value.name}

    @staticmethod
    def locals(seen: tuple[SeenValue, ...]) -> set[tuple[str, str, str]]:
        return {(value.function, value.name, value.kind) for value in seen if value.name}


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
@COLUMNS
def test_receivers(fake: bool) -> None:
    module = Module(MODEL)
    with tracing.tensor_mode(fake):
        x = torch.ones(3)
    seen = module.seen(module.trace("Net()", x, fake=fake))
    assert module.expressions(seen) == {
        ("self", "module"),
        ("self.table", "tensor"),
        ("items", "other"),
        ("self.weight", "tensor"),
        ("self.linear", "module"),
        ("self.linear.weight", "tensor"),
        ("self.linear.weight.sum()", "tensor"),
        ("x", "tensor"),
        ("x.shape", "other"),
        ('"ä"', "str"),
        ("x.cos()", "tensor"),
        ("self.__hidden", "tensor"),
        ("y", "tensor"),
        ("item", "tensor"),
        ("self.twice", "tensor"),
        ("q", "tensor"),
        ("z", "tensor"),
        ("part", "tensor"),
    }


def test_locals() -> None:
    module = Module(MODEL)
    seen = module.seen(module.trace("Net()", torch.ones(3)))
    inner = "Net.forward.<locals>.inner"
    assert module.locals(seen) == {
        ("Net.twice", "self", "module"),
        ("Net.forward", "self", "module"),
        ("Net.forward", "x", "tensor"),
        ("Net.forward", "flag", "bool"),
        ("Net.forward", "rest", "other"),
        ("Net.forward", "scale", "float"),
        ("Net.forward", "more", "other"),
        ("Net.forward", "items", "other"),
        ("Net.forward", "y", "tensor"),
        ("Net.forward", "n", "int"),
        ("Net.forward", "é", "str"),
        ("Net.forward", "item", "tensor"),
        ("Net.forward", "inner", "other"),
        ("Net.forward", "z", "tensor"),
        ("Net.forward", "part", "tensor"),
        ("Net.forward", "total", "other"),
        (inner, "q", "tensor"),
        (inner, "captured", "tensor"),
    }
    places = {value.function: module.at(value.range) for value in seen if value.name}
    assert places == {"Net.twice": "twice", "Net.forward": "forward", inner: "inner"}


def test_a_local_of_two_kinds_has_both() -> None:
    module = Module(
        """
        def f(x):
            y = 1
            y = x + y
            return y
        """
    )
    seen = module.seen(module.trace("f", torch.ones(3)))
    assert module.locals(seen) == {
        ("f", "x", "tensor"),
        ("f", "y", "int"),
        ("f", "y", "tensor"),
    }


@COLUMNS
def test_what_dynamo_keeps_in_a_graph_need_not_be_a_tensor() -> None:
    module = Module(
        """
        def f(x):
            array = x.numpy()
            number = array.sum()
            size = x.size(0)
            return array.copy(), number, size.bit_length()
        """
    )
    seen = module.seen(module.trace("f", torch.ones(3)))
    assert ("array", "other") in module.expressions(seen)
    kinds = {(name, kind) for _, name, kind in module.locals(seen)}
    assert kinds == {("x", "tensor"), ("array", "other"), ("number", "other"), ("size", "int")}


def test_functions_of_other_files_tell_nothing() -> None:
    module = Module(
        """
        from torch.nn.functional import multi_head_attention_forward, normalize

        def f(x):
            return normalize(x)
        """
    )
    seen = module.seen(module.trace("f", torch.ones(3, 3)))
    assert module.locals(seen) == {("f", "x", "tensor")}
    assert module.expressions(seen) == set()


def test_decorated_lambda_and_method_of_a_nested_class() -> None:
    module = Module(
        """
        import functools

        def wrap(function):
            @functools.wraps(function)
            def call(*args):
                return function(*args)
            return call

        @wrap
        @wrap
        def f(x):
            class Local:
                pass
            g = lambda a, *, b=None: a * 2
            return g(x)
        """
    )
    seen = module.seen(module.trace("f", torch.ones(3)))
    found = module.locals(seen)
    assert ("f", "x", "tensor") in found
    assert ("f.<locals>.<lambda>", "a", "tensor") in found
    assert ("f.<locals>.<lambda>", "b", "other") in found
    assert ("wrap.<locals>.call", "args", "other") in found


@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "with a mistake of ours"])
def test_watching_changes_nothing(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(MODEL)
    alone = Module(MODEL)
    alone.path = "/another/file.py"  # so nothing is watched
    x = torch.ones(3)
    expected = alone.trace("Net()", x)
    assert not expected.seen
    torch._dynamo.reset()
    if broken:

        def wrong(_: Any) -> None:
            raise ZeroDivisionError("while watching")

        monkeypatch.setattr(variables, "variable_kind", wrong)
    found = module.trace("Net()", x)
    assert found.failure is None
    assert any("while watching" in words for words in found.losses) == broken

    def facts(recording: Recording) -> object:
        return (
            [(frame.function, frame.outcome) for frame in recording.frames],
            [[op.target for op in graph.ops] for graph in recording.graphs],
            # Dynamo numbers the dictionary of builtins.
            sorted((guard.kind, re.sub(r"_\d+", "", guard.source)) for guard in recording.guards),
            [found.id for found in recording.breaks],
        )

    assert facts(found) == facts(expected)


def test_arguments_that_are_not_used_are_not_guarded() -> None:
    module = Module(
        """
        def outer(x, unused):
            return inner(x, unused)

        def inner(x, y):
            z = y
            return x.sin()
        """
    )
    recording = module.trace("outer", torch.ones(3), torch.ones(5))
    found = module.locals(module.seen(recording))
    assert {("inner", "y", "tensor"), ("inner", "z", "tensor")} <= found
    # Up to torch 2.8 assigning a local guards it, with and without us.
    guarded = any("unused" in guard.source for guard in recording.guards)
    assert guarded == (markers.torch_version() < (2, 9))


# -- over the pipe ----------------------------------------------------------------------------


def test_packing() -> None:
    module = Module(MODEL)
    seen = module.seen(module.trace("Net()", torch.ones(3)))
    event = ValuesSeen.from_values(3, "Net", seen)
    again = decode(encode(event))
    assert again == event
    assert isinstance(again, ValuesSeen)
    assert tuple(again.unpack_values()) == seen


VALUE = '[["module","what"],[[[[1,2],[1,3]],%s]]]'


@pytest.mark.parametrize(
    "packed", ["", "[]", "{}", '[[],[["tensor"]]]', VALUE % 1, VALUE % 7, VALUE % -1, VALUE % "0,9"]
)
def test_what_is_not_of_that_form_is_nothing(packed: str) -> None:
    (value,) = ValuesSeen(1, "Net", VALUE % 0).unpack_values()
    assert value.kind == "module"
    assert ValuesSeen(1, "Net", packed).unpack_values() == ()


PROBED = """\
import torch


# fullgraph: f32[4]
def f(x):
    print(x)
    y = x + 1
    return y


# fullgraph: f32[4]
def raises(x):
    y = x.sin()
    raise ValueError(y.shape)


# fullgraph: f32[4]
def exits(x):
    import os

    os._exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "real"])
def test_every_run_that_lives_tells_once_behind_its_findings(mode: Mode, tmp_path: Path) -> None:
    events = asyncio.run(analyzed(str(tmp_path / "model.py"), PROBED, mode))
    told = [event for event in events if isinstance(event, ValuesSeen)]
    assert {event.target for event in told} == {"f", "raises"}
    (f,) = (event for event in told if event.target == "f")
    kinds = {(value.function, value.name): value.kind for value in f.unpack_values() if value.name}
    assert kinds == {("f", "x"): "tensor", ("f", "y"): "tensor"}
    order = [
        event
        for event in events
        if event is f
        or (isinstance(event, FindingFound) and event.finding.run == RunId("f"))
        or (isinstance(event, TargetDone) and event.report.name == "f")
    ]
    found = [event.finding for event in order if isinstance(event, FindingFound)]
    assert len({one.identity for one in found}) == 1  # told at once, and again with its cost
    assert [kind for kind, _ in groupby(order, type)] == [FindingFound, ValuesSeen, TargetDone]


async def analyzed(path: str, text: str, mode: Mode) -> list[Event]:
    engine = Engine(Path(sys.executable))
    await engine.start()
    await engine.ready()
    try:
        order = Analyze(request=0, generation="1", path=path, text=text, mode=mode, jobs=1)
        return [event async for event in engine.analyze(order)]
    finally:
        await engine.close()
