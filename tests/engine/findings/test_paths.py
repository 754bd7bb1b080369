"""Which paths are worth tracing, and what the code that asks is answered along them."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

from fullgraph_engine.findings import conditions
from fullgraph_engine.findings.conditions import ConditionSide, FileConditions
from fullgraph_engine.findings.paths import PATIENCE, AskedValue, ExamplePath, FlagParameter, Policy
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.protocol import Frame, Range
from fullgraph_engine.protocol.paths import PathAnswer
from fullgraph_engine.protocol.places import node_range
from fullgraph_engine.tracing import modes
from fullgraph_engine.tracing.recording import TracedLines

PATH = "/nowhere/model.py"


def place(text: str, words: str) -> Range:
    """Of the first expression that is written so."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr))
    return next(node_range(node) for node in nodes if ast.get_source_segment(text, node) == words)


def segment(text: str, range_: Range | None) -> str:
    """What stands in a range; ASCII only."""
    if range_ is None:
        return ""
    lines = text.splitlines(keepends=True)[range_.start.line : range_.end.line + 1]
    lines[-1] = lines[-1][: range_.end.byte]
    lines[0] = lines[0][range_.start.byte :]
    return "".join(lines)


def sides(text: str, words: str) -> dict[tuple[str, bool], ConditionSide]:
    """The sides that depend on a value, by the text of their condition."""
    source = SourceText(PATH, text)
    found = FileConditions(source.tree).on_value(place(text, words))
    return {(source.text_of(side.test), side.truth): side for side in found}


def test_the_sides_of_a_condition_begin_with_their_first_statement() -> None:
    text = """\
def f(x):
    if x.any():
        "a comment"
        pass
        y = g(
            x)
    elif x.all():
        for z in x:
            h(z)
    return x
"""
    found = sides(text, "x.any()")
    taken, other = found["x.any()", True], found["x.any()", False]
    assert segment(text, taken.begins) == "y = g(\n            x)"
    assert segment(text, taken.block).startswith('"a comment"\n')
    assert segment(text, taken.block).endswith("x)")
    assert segment(text, other.begins) == "elif x.all():\n        "
    inner = sides(text, "x.all()")
    assert segment(text, inner["x.all()", True].begins) == "for z in x:\n            "
    assert ("x.all()", False) not in inner


def test_what_follows_a_block_that_leaves_is_the_other_side() -> None:
    text = "def f(x):\n    if x.any():\n        return 1\n    g(x)\n"
    assert segment(text, sides(text, "x.any()")["x.any()", False].begins) == "g(x)"


def test_a_block_that_raises_is_no_side() -> None:
    text = "def f(x):\n    if x.any():\n        g(x)\n        raise ValueError\n    h(x)\n"
    assert list(sides(text, "x.any()")) == [("x.any()", False)]
    text = "def f(x):\n    assert x.any()\n    h(x)\n"
    assert list(sides(text, "x.any()")) == [("x.any()", True)]


@pytest.mark.parametrize(
    ("text", "asked", "condition"),
    [
        ("def f(x):\n    a = x.any()\n    b = a\n    if b:\n        g()\n", "x.any()", "b"),
        (
            "class A:\n    def f(self, x):\n        self.a = x.any()\n"
            "    def g(self):\n        while self.a:\n            h()\n",
            "x.any()",
            "self.a",
        ),
        (
            "def small(x):\n    return bool(x.any())\ndef f(x):\n    if small(x):\n        g()\n",
            "bool(x.any())",
            "small(x)",
        ),
        ("def f(x):\n    return g(x) if not x.any() else x\n", "x.any()", "x.any()"),
        ("def f(x):\n    for i in range(int(x)):\n        g(i)\n", "int(x)", "range(int(x))"),
    ],
)
def test_a_condition_depends_on_what_was_asked_for_before(
    text: str, asked: str, condition: str
) -> None:
    assert {words for words, _ in sides(text, asked)} == {condition}


def test_a_condition_on_something_else_does_not_depend_on_it() -> None:
    text = "def f(x, y):\n    a = x.any()\n    if y:\n        g()\n"
    assert not sides(text, "x.any()")


@pytest.mark.parametrize(
    ("condition", "truth", "given", "answer"),
    [
        ("a > 0.5", True, 0.2, 1.5),
        ("a > 0.5", False, 0.7, -0.5),
        ("0.5 > a", True, 0.7, -0.5),
        ("a == 3", True, 1, 3),
        ("a != 3", False, 1, 3),
        ("a <= -1", True, 0.0, -2.0),
        ("not a < 2", True, 1.0, 3.0),
        ("a > limit", True, 0.2, conditions.LARGE),
        ("a", True, False, True),
    ],
)
def test_the_answer_leads_to_the_side(
    condition: str, truth: bool, given: conditions.Number, answer: conditions.Number
) -> None:
    text = (
        f"def f(x):\n    a = x.item()\n    if {condition}:\n        g()\n    else:\n        h()\n"
    )
    asked = place(text, "x.item()")
    begins = "g()" if truth else "h()"
    found = [
        side
        for side in FileConditions(ast.parse(text)).on_value(asked)
        if segment(text, side.begins) == begins
    ]
    assert next(conditions.candidate_answers(found[0], asked, given)) == answer


def test_each_place_is_answered_once_and_then_as_ever() -> None:
    text = "def f(x):\n    while x.any():\n        g(x)\n"
    source = SourceText(PATH, text)
    where = place(text, "x.any()")
    asks = Frame(PATH, "f", 1, where.start.byte, 1, where.end.byte)
    policy = Policy((PathAnswer(where, True, ""),), frozenset(), source)
    answers = [policy(asks, False) for _ in range(PATIENCE + 1)]
    # A loop that does not end on the usual answer ends on another one.
    assert answers == [True, *[False] * (PATIENCE - 1), True]
    assert policy.asked == {where: True}
    assert Policy((), frozenset({where}), source)(asks, False) is True
    assert policy(Frame("/elsewhere.py", "f", 1), False) is False


def test_what_is_known_can_be_passed_on() -> None:
    where = place("f(x)", "f(x)")
    known = ExamplePath(
        TracedLines(frozenset({where}), frozenset({where, place("f(x)", "x")})),
        True,
        True,
        (AskedValue(where, False), AskedValue(where, 2.5)),
        False,
        (
            FlagParameter("mask", None),
            FlagParameter("flag", True),
            FlagParameter("memory", absent=True),
        ),
        frozenset({"a@1:2-3:4"}),
    )
    assert ExamplePath.from_text(known.to_text()) == known
    long = ExamplePath(identities=frozenset(f"{hash((n, 'x')):x}" for n in range(20_000)))
    assert long.to_text() == ""


class Reads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.training else -x


class Mixin:
    def helps(self) -> bool:
        return bool(getattr(self, "training", False))


class Mixed(Mixin, nn.Linear):
    pass


class OwnDropout(nn.Dropout):
    pass


@pytest.mark.parametrize(
    ("module", "matters"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.BatchNorm2d(2), nn.LSTM(2, 2)), False),
        (nn.BatchNorm1d(2, momentum=None), True),
        (nn.TransformerEncoderLayer(8, 2), True),
        (nn.Sequential(nn.Linear(2, 2), Reads()), True),
        (Mixed(2, 2), True),
        (OwnDropout(), False),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)), True),
    ],
)
def test_whether_the_mode_can_matter(module: nn.Module, matters: bool) -> None:
    assert modes.can_mode_matter(module, mode_read_elsewhere=False) is matters
    assert modes.can_mode_matter(module, mode_read_elsewhere=True)


def test_functions_have_no_mode() -> None:
    assert not modes.can_mode_matter(torch.relu, mode_read_elsewhere=True)
