"""What values of a file were while Dynamo traced it, place by place.

``tests/fixtures/hints`` holds files whose comments state it: below a line of code, carets under a
place, its role, and the values that it had, with ``|`` between distinct ones and ``x2`` behind one
that came twice. ``since`` and ``before`` may end it as in :mod:`markers`. What no comment states
must not be told.
"""

from __future__ import annotations

import linecache
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph_engine import targets, tracing
from fullgraph_engine.findings import run_target, shapes
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.protocol import Position, Range, decode, encode
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen, ShapesFound
from fullgraph_engine.tracing import shapes_seen, variables
from fullgraph_engine.tracing.recording import Recording

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]
COLUMNS = pytest.mark.skipif(sys.version_info < (3, 11), reason="bytecode has no columns")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "hints"

_MARK = re.compile(r"#? *(?P<carets>\^+) (?P<role>[a-z]+) (?P<values>.+)$")
Told = tuple[int, int, int, str, tuple[str, ...]]
"""Line, first byte and the byte behind the last, role, values."""


def marked(text: str) -> set[Told]:
    found: set[Told] = set()
    line = -1
    for number, words in enumerate(text.split("\n")):
        match = _MARK.match(words)
        if match is None:
            line = number
            continue
        start, end = match.span("carets")
        stated = markers.said_here(match["values"])
        if stated is None:
            continue
        values = tuple(value.strip() for value in stated.split(" | "))
        found.add((line, start, end, match["role"], values))
    return found


def told(places: tuple[PlaceShapes, ...]) -> set[Told]:
    found: set[Told] = set()
    for place in places:
        counts: dict[str, int] = {}
        for value in place.values:
            counts[value.text] = counts.get(value.text, 0) + value.count
        values = tuple(text if count == 1 else f"{text} x{count}" for text, count in counts.items())
        start, end = place.range.start, place.range.end
        assert start.line == end.line
        found.add((start.line, start.byte, end.byte, place.role, values))
    return found


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.py")), ids=lambda path: path.stem)
@pytest.mark.parametrize("mode", ["auto", "real"])
@COLUMNS
def test_fixture(path: Path, mode: Any) -> None:
    text = path.read_text()
    module = types.ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), module.__dict__)
    (target,) = (
        target
        for target in targets.discover(text, str(path)).targets
        if any(p.info.origin != "synthesis" for p in targets.plan_probes(target, module.__dict__))
    )
    (probe,) = targets.plan_probes(target, module.__dict__)
    tracee = targets.Tracee(target, probe, module.__dict__, str(path), text, mode)
    outcome = run_target(tracee, "first", lambda finding: None)
    assert outcome.report.status == "traced"
    assert told(outcome.shapes) == marked(text)
    assert marked(text)


# -- one thing at a time ----------------------------------------------------------------------


class Module:
    """A text, executed as if it were a file."""

    def __init__(self, text: str) -> None:
        self.text = textwrap.dedent(text)
        self.path = "/nowhere/model.py"
        self.names = types.ModuleType("model").__dict__
        # Up to torch 2.12, `torch.compile` wraps functions whose source nobody knows.
        linecache.cache[self.path] = len(self.text), None, self.text.splitlines(True), self.path
        exec(compile(self.text, self.path, "exec"), self.names)

    def trace(self, *args: Any, name: str = "f", **how: Any) -> Recording:
        return tracing.trace(self.names[name], args, {}, file=self.path, **how)

    def seen(self, recording: Recording) -> dict[tuple[ShapeRole, str], tuple[ShapeSeen, ...]]:
        """By role and name, or by role and code where there is no name."""
        lines = self.text.split("\n")
        found = {}
        for place in shapes.seen_shapes(recording, SourceText(self.path, self.text)):
            start, end = place.range.start, place.range.end
            name = place.name or lines[start.line][start.byte : end.byte]
            key = place.role, name
            while key in found:
                key = place.role, f"{key[1]}'"
            found[key] = place.values
        return found

    def texts(self, recording: Recording) -> dict[tuple[str, str], list[str]]:
        return {key: [v.text for v in values] for key, values in self.seen(recording).items()}


def test_all_that_is_known_of_a_tensor() -> None:
    module = Module(
        """
        def f(x, w):
            y = x @ w
            z = y.t()
            return z
        """
    )
    x, w = torch.ones(3, 4), torch.ones(4, 5, requires_grad=True)
    seen = module.seen(module.trace(x, w, dynamic=[(x, 0)], symbols=["rows"]))
    (z,) = seen["assigned", "z"]
    assert (z.kind, z.text, z.concrete) == ("tensor", "f32[5, rows]", "f32[5, 3]")
    assert (z.device, z.stride, z.layout, z.requires_grad) == ("cpu", "(1, 5)", "", True)
    assert (z.graph, z.node, z.count) == (1, "z", 1)
    (given,) = seen["parameter", "x"]
    assert not given.requires_grad and given.stride == "(4, 1)"


def test_a_size_without_a_name_and_one_that_is_pinned() -> None:
    module = Module(
        """
        def f(x, y):
            a = x * 2
            b = y * 2
            if x.shape[0] == 6:
                c = y.reshape(-1)
            return a, b, c
        """
    )
    x, y = torch.ones(6, 2), torch.ones(5, 2)
    texts = module.texts(module.trace(x, y, dynamic=[(x, 0), (y, 0)]))
    assert texts["assigned", "a"] == ["f32[6, 2]"]
    assert texts["assigned", "b"] == ["f32[s0, 2]"]
    assert texts["assigned", "c"] == ["f32[2*s0]"]


def test_names_go_through_breaks_and_arithmetic() -> None:
    module = Module(
        """
        def f(x):
            y = x[1:]
            print("break")
            z = y + 1
            return z.reshape(-1)
        """
    )
    x = torch.ones(6, 2)
    texts = module.texts(module.trace(x, dynamic=[(x, 0)], symbols=["2*n"]))
    assert texts["assigned", "y"] == ["f32[(2*n) - 1, 2]"]
    assert texts["assigned", "z"] == ["f32[(2*n) - 1, 2]"]


def test_constants_and_what_guards_them() -> None:
    module = Module(
        """
        def f(x, scale, flag, unused):
            n = x.shape[0]
            k = scale * 2
            s = "some"
            if flag:
                x = x * k
            return x
        """
    )
    seen = module.seen(module.trace(torch.ones(3), 7, True, 5))
    (n,), (k,) = seen["assigned", "n"], seen["assigned", "k"]
    assert (n.kind, n.text) == ("constant", "3")
    assert (k.kind, k.text) == ("constant", "14")
    (flag,), (scale,) = seen["parameter", "flag"], seen["parameter", "scale"]
    assert (flag.kind, flag.text, flag.source) == ("constant", "True", "flag")
    assert (scale.text, scale.source) == ("7", "scale")
    # Nothing holds it to its value.
    assert ("parameter", "unused") not in seen
    assert seen["assigned", "s"][0].text == "'some'"


def test_a_place_counts_once_however_often_the_frame_was_begun() -> None:
    module = Module(
        """
        def f(x):
            a = x + 1
            print("one")
            b = a + 1
            print("two")
            c = b + 1
            return c
        """
    )
    seen = module.seen(module.trace(torch.ones(3)))
    assigned = {name: values for (role, name), values in seen.items() if role == "assigned"}
    assert set(assigned) == {"a", "b", "c"}
    assert [value.count for values in assigned.values() for value in values] == [1, 1, 1]
    assert [values[0].graph for values in assigned.values()] == [1, 2, 3]


def test_nothing_is_said_of_what_ran_without_dynamo() -> None:
    module = Module(
        """
        import torch

        @torch.compiler.disable
        def eager(x):
            y = x + 1
            return y

        def f(x):
            z = eager(x)
            return z * 2
        """
    )
    seen = module.seen(module.trace(torch.ones(3)))
    assert not any(name in ("y", "x'") for _, name in seen)


def test_a_trace_that_fails_tells_what_it_saw() -> None:
    module = Module(
        """
        def f(x):
            y = x + 1
            z = y.view(7)
            return z
        """
    )
    recording = module.trace(torch.ones(3))
    assert recording.failure is not None
    texts = module.texts(recording)
    assert texts["assigned", "y"] == ["f32[3]"]
    assert ("assigned", "z") not in texts


def test_a_value_is_what_it_was_at_its_place() -> None:
    module = Module(
        """
        def f(x):
            y = x.clone()
            y.unsqueeze_(0)
            z = y
            return z
        """
    )
    texts = module.texts(module.trace(torch.ones(3)))
    assert texts["assigned", "y"] == ["f32[3]"]
    assert texts["assigned", "z"] == ["f32[1, 3]"]


@COLUMNS
def test_two_of_one_name_on_a_line_and_a_call_of_several_lines() -> None:
    module = Module(
        """
        def f(x):
            y = x[0]; y = x[:2]
            z = (
                y
                .sum(0, keepdim=True)
                .cos()
            )
            return (lambda q: q * 2)(z)
        """
    )
    texts = module.texts(module.trace(torch.ones(3, 4)))
    assert texts["assigned", "y"] == ["f32[4]"]
    assert texts["assigned", "y'"] == ["f32[2, 4]"]
    assert texts["assigned", "z"] == ["f32[1, 4]"]
    assert texts["parameter", "q"] == ["f32[1, 4]"]


@COLUMNS
def test_an_attribute_on_another_line_is_of_the_whole_expression() -> None:
    module = Module(
        """
        def f(x):
            return (
                x
                .max(
                    0
                ).values
            )
        """
    )
    recording = module.trace(torch.ones(3, 4))
    places = shapes.seen_shapes(recording, SourceText(module.path, module.text))
    lines = module.text.split("\n")
    end = Position(6, lines[6].index(".values") + len(".values"))
    (whole,) = (one for one in places if (one.role, one.range.end) == ("expression", end))
    assert whole.range.start == Position(3, lines[3].index("x"))
    assert [value.text for value in whole.values] == ["f32[4]"]


@COLUMNS
def test_variables_that_are_loaded_one_behind_the_other() -> None:
    module = Module(
        """
        def f(x, y):
            z = x + 1
            return z @ y
        """
    )
    texts = module.texts(module.trace(torch.ones(3, 4), torch.ones(4)))
    assert texts["expression", "z"] == ["f32[3, 4]"]
    assert texts["expression", "y"] == ["f32[4]"]


@COLUMNS
def test_what_is_added_to_is_no_expression() -> None:
    module = Module(
        """
        def f(x):
            y = x.sum(0, keepdim=True)
            y = y + 0
            x += y.expand_as(x)
            return x
        """
    )
    recording = module.trace(torch.ones(3, 4))
    places = shapes.seen_shapes(recording, SourceText(module.path, module.text))
    line = module.text.split("\n").index("    x += y.expand_as(x)")
    start = Position(line, len("    x += y.expand_as("))
    (argument,) = (one for one in places if one.range.start == start)
    assert [(value.text, value.count) for value in argument.values] == [("f32[3, 4]", 1)]


def test_a_mistake_of_ours_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        def f(x):
            y = x + 1
            print("break")
            return y * 2
        """
    expected = Module(text).trace(torch.ones(3))
    torch._dynamo.reset()

    def wrong(_: Any) -> None:
        raise ZeroDivisionError("while looking")

    monkeypatch.setattr(variables, "read_content", wrong)
    monkeypatch.setattr(variables, "_reader_by_class", {})
    found = Module(text).trace(torch.ones(3))
    assert found.failure is None
    assert any("while looking" in loss for loss in found.losses)
    assert [[op.target for op in graph.ops] for graph in found.graphs] == [
        [op.target for op in graph.ops] for graph in expected.graphs
    ]


def test_there_is_an_end_to_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes_seen, "MAX_ENTRIES", 5)
    module = Module(
        """
        def f(x):
            for n in range(10):
                x = x + n
            return x
        """
    )
    recording = module.trace(torch.ones(3))
    assert recording.shapes_left_out > 10
    source = SourceText(module.path, module.text)
    places = shapes.seen_shapes(recording, source)
    assert "are not shown" in shapes.limit_places(places, recording)[1]
    assert sum(value.count for place in recording.shapes for value in place.values) <= 5


def test_of_very_many_places_names_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(
        """
        def f(x):
            y = x + 1
            z = y * 2
            return z
        """
    )
    recording = module.trace(torch.ones(3))
    every = shapes.seen_shapes(recording, SourceText(module.path, module.text))
    assert shapes.limit_places(every, recording) == (every, "")
    monkeypatch.setattr(shapes, "MOST_PLACES", 3)
    told, note = shapes.limit_places(every, recording)
    assert [place.role for place in told] == ["parameter", "assigned", "assigned"]
    assert f"for only 3 of {len(every)} places" in note


def test_of_very_many_values_the_last_is_told_as_well() -> None:
    module = Module(
        """
        def f(x):
            for n in range(100):
                x = x + 1
            return x
        """
    )
    recording = module.trace(torch.ones(3))
    (place,) = (
        place
        for place in shapes.seen_shapes(recording, SourceText(module.path, module.text))
        if place.role == "loop"
    )
    assert place.count == 100
    assert [value.text for value in (place.values[0], place.values[-1])] == ["0", "99"]


# -- over the pipe ----------------------------------------------------------------------------


def test_packing() -> None:
    value = ShapeSeen("tensor", "f32[b, 16]", "f32[4, 16]", "cpu", "(16, 1)", graph=1, node="y")
    other = ShapeSeen("constant", "3", source="n", count=2)
    where = Range(Position(1, 2), Position(1, 3))
    places = (
        PlaceShapes(where, "assigned", (value, other), "é", "Net.forward"),
        PlaceShapes(where, "expression", (value,), "", "Net.forward", left_out=7),
    )
    event = ShapesFound.from_places(3, "Net", places, "cut")
    again = decode(encode(event))
    assert again == event
    assert isinstance(again, ShapesFound)
    assert tuple(again.unpack_places()) == places
    assert places[0].count == 3


@pytest.mark.parametrize(
    "packed", ["", "{}", '[[],[[[1,2,1,3],"assigned","","",0,[[0,1,"",1]]]]]', "[1]"]
)
def test_what_is_not_of_that_form_is_nothing(packed: str) -> None:
    assert list(ShapesFound(1, "f", packed).unpack_places()) == []
