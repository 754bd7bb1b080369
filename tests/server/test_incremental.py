"""What an edit can affect, and where the rest stands after it."""

from __future__ import annotations

import ast
import contextlib
import itertools
import random
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from lsprotocol import types

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental import (
    Inputs,
    KnownTarget,
    ParsedText,
    align_statements,
    find_unaffected,
    same_code,
    unless_called_otherwise,
)
from fullgraph.incremental.moves import LineLost, Moves
from fullgraph.incremental.relocation import Relocation
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.incremental.tokens import Token, tokens_of
from fullgraph_engine.code_objects import position_entries
from fullgraph_engine.protocol import (
    BreakCause,
    Finding,
    Frame,
    GivenCall,
    GivenCalls,
    Position,
    Range,
    Related,
    TracePath,
)
from fullgraph_engine.protocol.evidence import GuardFailure, GuardFrame, RecompileEvidence

TEXT = '''\
"""A module."""
import torch
from torch import nn

WIDTH = 8


def helper(x):
    # a remark
    if x.sum() > 0:
        return x
    return x * WIDTH


class Inner(nn.Module):
    """Words."""

    def forward(self, x):
        return helper(
            x,

            # the second
            x,
        )


class Outer(nn.Module):
    def __init__(self):
        self.inner = Inner()

    def forward(self, x):
        return """a
        # no comment
        b""", self.inner(x)


class Other(nn.Module):
    def forward(self, x: "Config"):
        return x


class Config:
    size = 3


if __name__ == "__main__":
    Other()(torch.ones(WIDTH))
'''
NAMES = ("Inner", "Outer", "Other")


def left(new: str, *, inputs: Inputs = "written", text: str = TEXT) -> list[str]:
    """Targets that a change from one text to another does not affect."""
    before, after = ParsedText(text), ParsedText(new)
    targets = [KnownTarget(name, inputs) for name in NAMES]
    return sorted(find_unaffected(before, after, align_statements(before, after), targets))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("    # a remark\n", "", True),
        ("    # a remark\n", "    # another\n\n\n", True),
        ("import torch\n", "import torch  # for all\n", True),
        ("            # the second\n", "", True),
        ("        # no comment\n", "", False),
        ("        # no comment\n", "        # a comment\n", False),
        ("WIDTH = 8", "WIDTH = 9", False),
        ("WIDTH = 8", "WIDTH=   8", True),
        ("WIDTH = 8", "WIDTH = \\\n8", True),
        ("    return x * WIDTH", "  return x * WIDTH", False),
        ("    size = 3", "  size =3", True),
        ("            x,\n        )", "    x,\n    )", True),
        ("return helper(", "return helper (", True),
        ('        b"""', '     b"""', False),
        ("x * WIDTH", "x ** WIDTH", False),
        ("x * WIDTH", "x * WID TH", False),
        ("            x,\n\n", "            x ,\n\n", True),
        ("WIDTH = 8", "# fullgraph: off\nWIDTH = 8", False),
        ("class Inner", "# fullgraph: x=f32[2]\nclass Inner", False),
        ("WIDTH = 8", "WIDTH = 8  # fullgraph: ignore", True),
        ("WIDTH = 8", "WIDTH = 8  # fullgraph: ignore of", False),
        ('"""Words."""', '"""Others."""', False),
        ("        return x\n\n\n", "        return x\n", True),
        ("        return x\n    return", "        return x\n        return", False),
        ("        return x\n    return", "        return (x\n    return", False),
    ],
)
def test_comments_and_empty_lines_are_no_code(old: str, new: str, same: bool) -> None:
    assert old in TEXT
    found = same_code(ParsedText(TEXT), TEXT.replace(old, new).split("\n"))
    assert (found is not None) is same


def test_a_probe_comment_belongs_to_what_directly_follows_it() -> None:
    text = "# fullgraph: x=f32[2]\nclass Inner: pass\n"
    apart = text.replace("]\n", "]\n\n")
    assert same_code(ParsedText(text), apart.split("\n")) is None
    assert same_code(ParsedText(text), ("\n\n" + text).split("\n")) is not None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("WIDTH = 8", "WIDTH = 9", ["Other"]),
        ("return x * WIDTH", "return x", ["Other"]),
        ("self.inner(x)", "self.inner(x + 1)", ["Inner", "Other"]),
        ("size = 3", "size = 4", ["Inner", "Outer"]),
        ("import torch\n", "import torch, os\n", []),
        ("class Config:", "@torch.no_grad\nclass Config:", ["Inner", "Outer"]),
        ("class Config:", "@register\nclass Config:", []),
        ("def helper(x):\n", "@keep\ndef helper(x):\n", []),
        ("class Config:", "def unused(): pass\n\n\nclass Config:", ["Inner", "Other", "Outer"]),
        ("class Config:", "UNUSED = 3\n\n\nclass Config:", ["Inner", "Other", "Outer"]),
        ("class Config:", "torch.manual_seed(3)\n\n\nclass Config:", []),
        ("class Config:", "Inner.forward = None\n\n\nclass Config:", ["Other"]),
        ("class Config:", "def helper(x): pass\n\n\nclass Config:", ["Other"]),
        ("    Other()(", "    Other().eval()(", ["Inner", "Other", "Outer"]),
        ('    """Words."""\n', '    """Others."""\n', ["Inner", "Other", "Outer"]),
    ],
)
def test_a_change_affects_what_leads_to_it(old: str, new: str, expected: list[str]) -> None:
    assert old in TEXT
    assert left(TEXT.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # What is in `Outer` decides what `Inner` is called with.
        ("self.inner(x)", "self.inner(x + 1)", ["Other"]),
        ("    Other()(", "    Other().eval()(", ["Inner", "Outer"]),
        ('    """Words."""\n', '    """Others."""\n', ["Other"]),
    ],
)
def test_inputs_that_are_not_written_at_a_target_come_from_elsewhere(
    old: str, new: str, expected: list[str]
) -> None:
    assert left(TEXT.replace(old, new), inputs="given") == expected


def test_inputs_that_were_found_hold_unless_what_uses_the_target_changes() -> None:
    user = "\n\ndef user(x):\n    return late(Other()(x))\n\n\ndef late(x):\n    return x\n"
    text = TEXT + user
    changed = text.replace("def late(x):\n    return x", "def late(x):\n    return x + 1")
    assert left(changed, inputs="found", text=text) == ["Inner", "Other", "Outer"]
    assert left(changed, inputs="given", text=text) == ["Inner", "Outer"]
    changed = text.replace("late(Other()(x))", "Other()(x)")
    assert left(changed, inputs="found", text=text) == ["Inner", "Outer"]


def test_a_comment_leads_to_what_it_names() -> None:
    assert left(TEXT.replace("WIDTH = 8", "WIDTH = 9")) == ["Other"]
    text = TEXT.replace("class Other", "# fullgraph: init(act=helper) f32[2]\nclass Other")
    assert left(text.replace("WIDTH = 8", "WIDTH = 9"), text=text) == []


def test_inputs_that_were_found_lead_to_what_they_name() -> None:
    before, after = ParsedText(TEXT), ParsedText(TEXT.replace("size = 3", "size = 4"))
    targets = [
        KnownTarget("Inner", "found", definitions=("Config", "x")),
        KnownTarget("Outer", "found"),
    ]
    assert find_unaffected(before, after, align_statements(before, after), targets) == {"Outer"}


@pytest.mark.parametrize(
    ("old", "new", "searched"),
    [
        ("size = 3", "size = 4", True),
        ("class Config:", "class Config(dict):", True),
        ("self.inner(x)", "self.inner(x + 1)", False),
        ("def helper(x):", "def helper(x=1):", True),
    ],
)
def test_inputs_are_looked_for_again_where_a_definition_is_made_with_others(
    old: str, new: str, searched: bool
) -> None:
    assert old in TEXT
    text = TEXT.replace("class Config", "class Alone:\n    pass\n\n\nclass Config")
    before, after = ParsedText(text), ParsedText(text.replace(old, new))
    targets = [KnownTarget("Alone", "sought")]
    found = find_unaffected(before, after, align_statements(before, after), targets)
    assert found == (set() if searched else {"Alone"})


def test_what_others_give_may_lead_to_definitions_that_nothing_names() -> None:
    calls = GivenCalls("Inner", (GivenCall("1"),))

    def holds(new: str, *definitions: str) -> bool:
        target = KnownTarget("Inner", "given", definitions=definitions, calls=calls)
        before, after = ParsedText(TEXT), ParsedText(new)
        change = align_statements(before, after)
        return unless_called_otherwise(before, after, change, [target]) == {"Inner"}

    caller = TEXT.replace("self.inner(x)", "self.inner(-x)")
    assert holds(caller)
    assert holds(TEXT.replace("size = 3", "size = 4"))
    assert not holds(TEXT.replace("size = 3", "size = 4"), "Config")
    assert not holds(TEXT.replace("x * WIDTH", "x - WIDTH"))
    before, after = ParsedText(TEXT), ParsedText(caller)
    unasked = KnownTarget("Inner", "given")
    assert not unless_called_otherwise(before, after, align_statements(before, after), [unasked])


def test_inputs_by_convention_follow_from_functions_that_do_not_name_the_target() -> None:
    text = TEXT + "\n\ncount = 4\n\n\ndef get_inputs():\n    return [torch.ones(count)]\n"
    for change in (
        text.replace("count = 4", "count = 5"),
        text.replace("ones(count)", "zeros(count)"),
    ):
        assert left(change, inputs="convention", text=text) == []
        assert left(change, inputs="given", text=text) == ["Inner", "Other", "Outer"]
    changed = text.replace("return x\n\n\nclass Config", "return -x\n\n\nclass Config")
    assert left(changed, inputs="convention", text=text) == []  # the last lines name it
    alone = text.partition("if __name__")[0] + text.partition("(WIDTH))\n")[2]
    changed = alone.replace("return x\n\n\nclass Config", "return -x\n\n\nclass Config")
    assert left(changed, inputs="convention", text=alone) == ["Inner", "Outer"]


def test_what_nothing_calls_may_come_to_be_called() -> None:
    user = "\n\ndef user(x):\n    return late(Other()(x))\n\n\ndef late(x):\n    return x\n"
    inputs = "\n\ndef get_inputs():\n    return [torch.ones(4)]\n"
    text = TEXT + user + inputs
    change = text.replace("def late(x):\n    return x", "def late(x):\n    return x + 1")
    assert left(change, inputs="found", text=text) == ["Inner", "Other", "Outer"]
    assert "Other" not in left(change, inputs="uncalled", text=text)
    change = text.replace("ones(4)", "ones(5)")
    assert left(change, inputs="given", text=text) == ["Inner", "Other", "Outer"]
    assert left(change, inputs="uncalled", text=text) == []
    before, after = ParsedText(text), ParsedText(change)
    targets = [KnownTarget("Inner", "given"), KnownTarget("Other", "uncalled")]
    assert find_unaffected(before, after, align_statements(before, after), targets) == {"Inner"}


def test_what_others_give_may_follow_from_their_inputs_by_convention() -> None:
    text = TEXT + "\n\ndef get_inputs():\n    return [torch.ones(4)]\n"
    before, after = ParsedText(text), ParsedText(text.replace("ones(4)", "ones(5)"))
    inner, other = KnownTarget("Inner", "given"), KnownTarget("Other", "written")
    for targets, expected in (
        ([inner, other, KnownTarget("Outer", "convention")], {"Other"}),
        ([inner, other], {"Inner", "Other"}),
    ):
        assert find_unaffected(before, after, align_statements(before, after), targets) == expected


@pytest.mark.parametrize("inputs", ["found", "given", "convention"])
def test_a_function_that_comes_may_be_one_that_inputs_are_looked_for_in(inputs: Inputs) -> None:
    new = TEXT + "\n\ndef get_inputs():\n    return [torch.ones(3)]\n"
    assert left(new, inputs=inputs) == left(TEXT, inputs=inputs, text=new) == []
    assert left(new) == ["Inner", "Other", "Outer"]


@pytest.mark.parametrize(
    "line",
    [
        "MODEL = Outer()",
        "@helper(Outer)\nclass Late: pass",
        "def late(x=Outer()): pass",
        "for name in (Outer,): name()",
        "class Late(Outer()): pass",
    ],
)
def test_what_is_called_on_import_affects_everything(line: str) -> None:
    text = f"{TEXT}\n{line}\n"
    assert left(text.replace("return x * WIDTH", "return x"), text=text) == []
    assert left(text.replace("size = 3", "size = 4"), text=text) == ["Inner", "Outer"]


def test_what_another_module_keeps_is_seen_in_the_runs_that_come_by_it() -> None:
    text = TEXT.replace("import torch\n", "import torch, registry\n").replace(
        "class Config:", '@registry.add("config")\nclass Config:'
    )
    new = text.replace("size = 3", "size = 4")
    before, after = ParsedText(text), ParsedText(new)
    line = text.split("\n").index("    size = 3")
    targets = [
        KnownTarget("Inner", "written", frozenset({line})),
        KnownTarget("Outer", "written", frozenset({2})),
        KnownTarget("Other", "written"),
    ]
    left_as_is = find_unaffected(before, after, align_statements(before, after), targets)
    assert left_as_is == {"Outer"}
    # One that is new, or kept under another name, may be found by anything.
    assert left(new.replace('"config"', '"other"'), text=text) == []
    # So may what a function of the text itself keeps.
    own = text.replace("registry.add(", "helper(")
    assert left(own.replace("size = 3", "size = 4"), text=own) == []


def test_classes_that_hear_of_their_subclasses_are_called_on_import() -> None:
    hearing = "class Base:\n    def __init_subclass__(cls): helper(cls)\n\n\nclass S(Base): pass\n"
    text = f"{TEXT}\n{hearing}"
    assert left(text.replace("return x * WIDTH", "return x"), text=text) == []


@pytest.mark.parametrize("call", ["globals()['helper']", "eval('hel' + 'per')"])
def test_what_may_reach_any_name_reaches_all(call: str) -> None:
    text = TEXT.replace('x: "Config"):\n        return x', f"x):\n        return {call}(x)")
    assert text != TEXT
    assert left(text.replace("return x * WIDTH", "return x"), text=text) == []
    # `sys` alone does not, and no method of that name.
    harmless = TEXT.replace("x\n\n\nclass Config", "x.eval()\n\n\nclass Config")
    assert left(harmless.replace("return x * WIDTH", "return x"), text=harmless) == ["Other"]


def test_a_definition_that_moved_is_another_one() -> None:
    body = "class Config:\n    size = 3\n\n\n"
    moved = TEXT.replace(body, "").replace("class Other", f"{body}class Other")
    assert left(moved) in (["Inner", "Outer"], ["Inner", "Other", "Outer"])


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_code_are_found_where_they_went(seed: int) -> None:
    chance = random.Random(seed)
    lines = TEXT.split("\n")
    strings = {number for number, line in enumerate(lines) if "comment" in line or 'b"""' in line}
    new: list[str] = []
    for number, line in enumerate(lines):
        while number not in strings and chance.random() < 0.3:
            new.append(chance.choice(["", "# note", "    # note"]))
        if line.strip() or number in strings or chance.random() < 0.5:
            new.append(line)
    before = ParsedText(TEXT)
    moves = same_code(before, new)
    assert moves is not None
    change = align_statements(before, ParsedText("\n".join(new)))
    assert change.is_same
    code = {token.start.line for token in tokens_of(lines) if not token.is_structure}
    code -= {number for number in code if "Words." in lines[number]}
    for move in (CodeMap(moves, new), CodeMap(change.moves, new)):
        assert not move.is_formatted
        for number in code:
            assert new[move.move_line(number)] == lines[number]


def test_what_is_told_moves_with_its_lines() -> None:
    text = "import torch\n\n\ndef f(x):\n    g(x,\n      x)\n"
    new = "# note\nimport torch\n\n\ndef f(x):\n    g(x,  # one\n      # note\n      x)\n"
    moves = same_code(ParsedText(text), new.split("\n"))
    assert moves is not None

    def finding(call: Range, line: int, file: str = "/p/a.py") -> Finding:
        return Finding(
            "graph-break/x",
            f"As line {line} says, a.py, line {line}, not line 4 of b.py, nor other.py, line 4.",
            call,
            context=f'File "{file}", line {line}, in f (p/a.py:{line} in f, p/b.py:5 in f)',
            stack=(Frame(file, "f", line - 1, 4, line, text="    g(x,"), Frame("/p/b.py", "f", 4)),
            related=(Related("/p/b.py", Range(Position(4, 0), Position(4, 1)), "There."),),
            identity=f"x@{call.start.line}:4-{call.end.line}:8",
            causes=(BreakCause("1", "place", "f"), BreakCause("2", "call", "g", file, 0)),
        )

    before = finding(Range(Position(4, 4), Position(5, 8)), 5)
    moved = relocation("/p/a.py", moves, new.split("\n")).relocate_value(before)
    assert moved.range == Range(Position(5, 4), Position(7, 8))
    assert moved.identity == "x@5:4-7:8"
    words = "As line 6 says, a.py, line 6, not line 4 of b.py, nor other.py, line 4."
    assert moved.message == words
    assert moved.context == 'File "/p/a.py", line 6, in f (p/a.py:6 in f, p/b.py:5 in f)'
    assert (moved.stack[0].line, moved.stack[0].text) == (5, "    g(x,  # one")
    assert (moved.stack[1], moved.related) == (before.stack[1], before.related)
    assert [cause.line for cause in moved.causes] == [0, 1]


def test_what_is_told_of_other_files_moves_where_it_comes_to_this_one() -> None:
    text = "def f(x):\n    g(x)\n"
    new = "# note\n" + text
    moves = same_code(ParsedText(text), new.split("\n"))
    assert moves is not None
    stack = GuardFrame("/p/a.py", 1, "f"), GuardFrame("/p/b.py", 1, "g")
    failure = GuardFailure("0/0", "x", "x", "x", "line 2", stack=stack)
    reasons = ("as line 2 of it says  # a.py:2 in f, b.py:2 in g",)
    told = Finding(
        "recompile/x",
        "It says line 2.",
        Range(Position(1, 4), Position(1, 8)),
        evidence=RecompileEvidence("g", "/p/b.py", 1, (failure,), reasons=reasons),
        path=TracePath(training=True),
    )
    moved = relocation("/p/a.py", moves, new.split("\n")).relocate_value(told)
    assert (moved.range.start, moved.message) == (Position(2, 4), "It says line 3.")
    evidence = moved.evidence
    assert isinstance(evidence, RecompileEvidence)
    assert (evidence.line, evidence.guards[0].words) == (1, "line 2")
    assert [frame.line for frame in evidence.guards[0].stack] == [2, 1]
    assert evidence.reasons == ("as line 2 of it says  # a.py:3 in f, b.py:2 in g",)


def test_what_is_told_of_a_line_that_is_gone_is_not_moved() -> None:
    text = "def f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
    before, after = ParsedText(text), ParsedText(text.partition("\n\n\n")[2])
    move = relocation("/a.py", align_statements(before, after).moves, after.lines)
    assert move.relocate_value(_on_line(5, 4)) == _on_line(1, 4)
    with pytest.raises(LineLost):
        move.relocate_value(_on_line(1, 4))


def test_a_frame_shows_the_line_of_the_text_as_it_is() -> None:
    lines = ["f(x)  # a remark"]
    moves = same_code(ParsedText("f(x)"), lines)
    assert moves is not None
    place = _on_line(0)
    told = Finding("x", "It says.", place, stack=(Frame("/a.py", "f", 0, text="f(x)"),))
    assert relocation("/a.py", moves, lines).relocate_value(told).stack[0].text == lines[0]


def relocation(path: str, moves: Moves, lines: Sequence[str]) -> Relocation:
    return Relocation(path, CodeMap(moves, lines), strict=True)


def _on_line(line: int, byte: int = 3) -> Range:
    return Range(Position(line, byte), Position(line, byte + 1))


def code_by_line(lines: Sequence[str]) -> list[list[Token]]:
    code = [token for token in tokens_of(lines) if not token.is_structure]
    return [list(one) for _, one in itertools.groupby(code, lambda token: token.start.line)]


def respaced(chance: random.Random, text: str) -> str:
    """Other blanks, wherever there may be some."""
    new, times = [], chance.choice([1, 2])
    for tokens in code_by_line(text.split("\n")):
        words = [" " * (tokens[0].start.byte * times)]
        for before, token in itertools.pairwise(tokens):
            apart = before.text[-1:].isalnum() and token.text[:1].isalnum()
            words += [before.text, " " * (chance.randrange(3) + apart)]
        new.append("".join([*words, tokens[-1].text]))
    return "\n".join(new)


PLACES = "\n".join(
    [
        "class A:",
        "    def f(self, x, größe):",
        '        y = {"ü": größe[0], "b": (x)}',
        "        if x:",
        '            return g(x , y["ü"],',
        "              größe)  # note",
        "        return f'{x}  ' + x . a",
    ]
)


@pytest.mark.parametrize("seed", range(20))
def test_places_on_lines_are_found_behind_other_blanks(seed: int) -> None:
    chance = random.Random(seed)
    new = respaced(chance, PLACES)
    lines, now = PLACES.split("\n"), new.split("\n")
    moves = same_code(ParsedText(PLACES), now)
    assert moves is not None
    moved = relocation("/a.py", moves, now)
    for tokens in code_by_line(lines):
        for number, first in enumerate(tokens):
            last = chance.choice(tokens[number:])
            place = Range(first.start, last.end)
            there = between(now, moved.relocate_value(place))
            assert there.replace(" ", "") == between(lines, place).replace(" ", "")
            assert there == there.strip()


def between(lines: Sequence[str], place: Range) -> str:
    text = TextPositions("\n".join(lines))
    return text.text_in(place)


def test_what_repeats_a_line_is_not_moved_behind_other_blanks() -> None:
    new = ["a = f(x, 1)", ""]
    moves = same_code(ParsedText("a = f(x,1)\n"), new)
    assert moves is not None
    place = Range(Position(0, 0), Position(0, 10))
    moved = relocation("/a.py", moves, new).relocate_value(Finding("x", "It says 1.", place))
    assert moved.range.end.byte == 11
    with pytest.raises(LineLost):
        relocation("/a.py", moves, new).relocate_value(Finding("x", "Of `f(x,1)`.", place))


@pytest.mark.parametrize("before", ["", '# File "/a.py", line 4, in f, code: '])
def test_what_quotes_one_of_the_lines_of_an_expression_is_not_moved(before: str) -> None:
    old, new = "x = (\n    f(1)\n    + g(2)\n)\n", ["x = f(1) + g(2)", ""]
    moves = same_code(ParsedText(old), new)
    assert moves is not None
    told = f"Computed as follows:\n    {before}+ g(2)\n    add = add(a, b)"
    with pytest.raises(LineLost):
        relocation("/a.py", moves, new).relocate_value(
            Finding("x", "x", Range(Position(0, 0), Position(0, 1)), explanation=told)
        )


def test_a_line_between_backticks_is_one_of_the_file() -> None:
    old, new = "x = f([\n    1,\n    2,\n])\n", ["x = f([1, 2])", ""]
    moves = same_code(ParsedText(old), new)
    assert moves is not None
    place = Range(Position(0, 0), Position(0, 1))
    move = relocation("/a.py", moves, new)
    moved = move.relocate_value(Finding("x", "Of `f` at line 1.", place))
    assert moved.message == "Of `f` at line 1."
    with pytest.raises(LineLost):
        move.relocate_value(Finding("x", "It had to be true in `x = f([` (f of 1).", place))


LAYOUTS = [
    ("x = f(a, b)", "x = f(\n    a,\n    b,\n)"),
    ("x = a + b", "x = (\n    a\n    + b\n)"),
    (
        "def f(a, b=c):\n    return a, b",
        "def f(\n    a,\n    b=c,\n):\n    return (a, b)",
    ),
    ("x = y['a'] + 'b' 'c'", 'x = y["a"] + "bc"'),
    ("x = f(a).g(b)", "x = f(\n    a\n).g(b)"),
    ("x = f(a).g(b).h", "x = (\n    f(a)\n    .g(b)\n    .h\n)"),
    ("if a and b:\n    pass", "if (\n    a\n    and b\n):\n    pass"),
    ("x = [i for i in a if i]", "x = [\n    i\n    for i in a\n    if i\n]"),
    ("with a as b, c as d:\n    pass", "with (\n    a as b,\n    c as d,\n):\n    pass"),
    ("assert a, b", "assert (\n    a\n), b"),
    ("for i, j in a:\n    pass", "for (\n    i,\n    j,\n) in a:\n    pass"),
    ("return_(a)[b](c, *d)", "return_(\n    a\n)[\n    b\n](\n    c,\n    *d,\n)"),
    ("f(*a).g(*b)", "f(\n    *a\n).g(\n    *b\n)"),
    ("0XFF + 1E5", "0xFF + 1e5"),
]


@pytest.mark.parametrize(("old", "new"), [*LAYOUTS, *((b, a) for a, b in LAYOUTS)])
def test_what_a_formatter_does_is_no_change(old: str, new: str) -> None:
    """Where Python compiles an instruction from, it is found in the new text, or not at all."""
    moves = same_code(ParsedText(old), new.split("\n"))
    assert moves is not None
    assert moves.is_formatted
    before, after = ast.parse(old), ast.parse(new)
    found = 0
    for one, other in zip(instructions(old), instructions(new), strict=True):
        with contextlib.suppress(LineLost):
            assert moves.move_range(one, "instruction") == other
            found += 1
    assert found > len(instructions(old)) / 2
    for node, node_now in zip(ast.walk(before), ast.walk(after), strict=True):
        if isinstance(node, ast.expr) and isinstance(node_now, ast.expr):
            assert moves.move_range(extent(node), "expression") == extent(node_now)


def instructions(text: str) -> list[Range]:
    """Where those come from that come from anywhere, in their order."""
    found, left = [], [compile(text, "x", "exec")]
    while left:
        code = left.pop()
        for line, end_line, column, end_column in position_entries(code):
            if line and end_line and column is not None and end_column:
                start = Position(line - 1, column)
                found.append(Range(start, Position(end_line - 1, end_column)))
        left += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def extent(node: ast.expr) -> Range:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = Position(node.lineno - 1, node.col_offset)
    return Range(start, Position(node.end_lineno - 1, node.end_col_offset))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f(a, b)", "f((a, b))"),
        ("x = a, b", "x = [a, b]"),
        ("x = a", "x = a,"),
        ("x = (a + b) * c", "x = a + b * c"),
        ("x = 'a'", "x = b'a'"),
        ("x = 'a'", "x = u'a'"),
        ("x = 1", "x = 1.0"),
        ("if a: b", "if a:\n    b"),
        ("(x): int", "x: int"),
        ("x[1]", "x[1,]"),
        ("assert (a, b)", "assert a, b"),
    ],
)
def test_what_means_something_else_is_a_change(old: str, new: str) -> None:
    assert same_code(ParsedText(old), new.split("\n")) is None


def test_a_line_that_is_split_has_no_one_counterpart() -> None:
    old, new = (
        "def f(a, b):\n    x = g(a, b)\n",
        "def f(\n    a, b\n):\n    x = g(\n        a, b\n    )\n",
    )
    moves = same_code(ParsedText(old), new.split("\n"))
    assert moves is not None
    assert moves.move_line(0) == 0  # a function begins with its `def`
    with pytest.raises(LineLost):
        moves.move_line(1)
    back = same_code(ParsedText(new), old.split("\n"))
    assert back is not None
    assert [back.move_line(line) for line in (0, 1, 3, 4)] == [0, 0, 1, 1]


@pytest.mark.parametrize(("base", "moves_on"), [("inner()", True), ("super()", False)])
def test_an_attribute_of_super_begins_at_two_places_on_its_own_line(
    base: str, moves_on: bool
) -> None:
    old = f"class A:\n    def f(self, x):\n        return {base}.f(x)\n"
    new = f"class A:\n    def f(self, x):\n        return (\n{base}\n.f(x)\n)\n"
    moves = same_code(ParsedText(old), new.split("\n"))
    assert moves is not None
    place = Range(Position(2, 15), Position(2, 24))
    if moves_on:
        assert moves.move_range(place, "instruction") == Range(Position(4, 1), Position(4, 2))
    else:
        with pytest.raises(LineLost):
            moves.move_range(place, "instruction")


# -- in the editor --------------------------------------------------------------------------------

PAIR = textwrap.dedent(
    """\
    import torch.nn as nn


    class A(nn.Module):
        def forward(self, x):
            first()  # break: in A


    class B(nn.Module):
        def forward(self, x):
            second()  # break: in B
    """
)
NET = "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    call()  # break: A break\n"
BREAK = ("A break", "call()")
IN_A, IN_B = ("in A", "first()"), ("in B", "second()")


async def until_run(editor: Any, counter: Any, number: int) -> None:
    """Until so many runs were asked for, and the last has ended."""
    await editor.until(lambda: counter.analyzed == number)
    await editor.until_rest()


def last_analyzed(counter: Any) -> str:
    """What the engine was asked last, behind the number of the text."""
    return str([line for line in counter.lines if line.startswith("analyze")][-1])


async def test_a_comment_costs_no_run(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    editor.edit(uri, "\nclass Net", "\n# a note\n\nclass Net")
    await editor.until_seen(uri, BREAK)
    editor.save(uri)
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    assert counter.analyzed == 1


def paused(path: Path) -> str:
    """A text whose run waits for a file between two of its findings."""
    return f"{NET}    1  # until: {path}\n    again()  # break: Another\n"


ANOTHER = ("Another", "again()")


async def test_a_run_goes_on_through_comments(editor: Any, counter: Any, tmp_path: Path) -> None:
    text = paused(tmp_path / "go")
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "\nclass Net", "\n# a note\nclass Net")
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "    again()", "        # this\n    again ( )")
    await editor.until_seen(uri, BREAK)
    editor.save(uri)
    (tmp_path / "go").touch()
    await editor.until_seen(uri, BREAK, ("Another", "again ( )"))
    await editor.until_rest()
    assert counter.analyzed == 1
    # What it found is known of the text as it is, and of the one that was traced.
    editor.edit(uri, "    again ( )", "    again()")
    await editor.until_seen(uri, BREAK, ANOTHER)
    editor.save(uri)
    await editor.until_rest()
    assert counter.analyzed == 1


async def test_a_run_of_other_code_is_ended_behind_comments(
    editor: Any, counter: Any, tmp_path: Path
) -> None:
    uri = editor.open("model.py", paused(tmp_path / "go"))
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "\nclass Net", "\n# a note\nclass Net")
    editor.edit(uri, "    again()", "    x = 1\n    again()")
    await editor.until(lambda: counter.analyzed == 2)
    (tmp_path / "go").touch()
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK, ANOTHER]


async def test_blanks_cost_no_run(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    editor.edit(uri, "    call()", "        call ( )")
    await editor.until_seen(uri, ("A break", "call ( )"))
    await editor.until_rest()
    assert counter.analyzed == 1


async def test_what_is_of_no_target_is_found_again_where_it_has_no_place(
    editor: Any, counter: Any
) -> None:
    text = f'import torch\ntorch.call(\n    "a",  # file: some/code Words\n)\n{PAIR}'
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("Words", '"a",'), IN_A, IN_B)
    await editor.until_rest()
    editor.replace(uri, text.replace('\n    "a",  #', '"a"  #'))
    await editor.until_seen(uri, ("Words", 'torch.call("a"'), IN_A, IN_B)
    assert last_analyzed(counter).endswith(" -A,-B")


async def test_only_what_an_edit_affects_is_traced(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", PAIR)
    await editor.until_seen(uri, IN_A, IN_B)
    await editor.until_state("ready")
    editor.edit(uri, "        second()", "        # a note\n        x = 2\n        second()")
    await until_run(editor, counter, 2)
    assert await editor.seen(uri) == [IN_A, IN_B]
    assert last_analyzed(counter).endswith(" -A")
    # What is known of both is as good as ever for the next edit.
    editor.edit(uri, "        first()", "        x = 1\n        first()")
    await until_run(editor, counter, 3)
    assert await editor.seen(uri) == [IN_A, IN_B]
    assert last_analyzed(counter).endswith(" -B")


async def test_an_imported_file_counts_once_it_is_another_one(editor: Any, counter: Any) -> None:
    blocks = "x = 1\n"
    editor.root.joinpath("blocks.py").write_text(blocks)
    uri = editor.open("model.py", f"# stub: files blocks.py\nimport blocks\n{PAIR}")
    await editor.until_seen(uri, IN_A, IN_B)
    await editor.until_rest()
    # Somebody looks at it, and an edit is as cheap as before.
    imported = editor.open("blocks.py", blocks)
    await editor.until_rest()
    assert counter.analyzed == 1
    editor.edit(uri, "        second()", "        x = 2\n        second()")
    await until_run(editor, counter, 2)
    assert last_analyzed(counter).endswith(" -A")
    # What is typed there counts before it is saved, and no second time when it is.
    editor.edit(imported, "x = 1", "x = 2")
    await editor.until(lambda: counter.analyzed == 3)
    editor.root.joinpath("blocks.py").write_text(editor.texts[imported])
    editor.save(imported)
    editor.close(imported)
    await editor.until_rest()
    assert counter.analyzed == 3
    # What is closed without having been saved is gone.
    imported = editor.open("blocks.py", "x = 2\n")
    editor.edit(imported, "x = 2", "x = 3")
    await until_run(editor, counter, 4)
    editor.close(imported)
    await editor.until_rest()
    assert await editor.seen(uri) == [IN_A, IN_B]
    assert counter.analyzed == 4


@pytest.mark.parametrize("files", ["files", "files-late"])
async def test_an_imported_file_that_is_edited_during_a_run_counts(
    editor: Any, counter: Any, tmp_path: Path, files: str
) -> None:
    """Also where the run has not said yet that it has read the file."""
    editor.root.joinpath("blocks.py").write_text("x = 1\n")
    go = tmp_path / "go"
    imported = editor.open("blocks.py", "x = 2\n")
    text = f"# stub: {files} blocks.py\nimport blocks  # file: some/code Words\n1  # until: {go}\n"
    uri = editor.open("model.py", f"{text}{PAIR}")
    words = "Words", "import blocks"
    await editor.until_seen(uri, words)
    editor.edit(imported, "x = 2", "x = 3")

    async def settled() -> bool:
        facts = await editor.command("fullgraph.server.debugInformation")
        return not any(file["waiting"] for file in facts["files"])

    await editor.until(settled)
    go.touch()
    await until_run(editor, counter, 2)
    assert await editor.seen(uri) == [words, IN_A, IN_B]
    assert counter.analyzed == 2


async def test_lines_of_an_imported_file_that_moved_are_found_when_it_is_saved(
    editor: Any, counter: Any
) -> None:
    blocks = editor.root / "blocks.py"
    blocks.write_text(NET)
    uri = editor.open("model.py", f"# stub: files blocks.py\nimport blocks\n{PAIR}")
    imported = editor.open("blocks.py", NET)
    await editor.until_seen(uri, IN_A, IN_B)
    await editor.until_seen(imported, BREAK)
    await editor.until_rest()
    assert counter.analyzed == 2
    editor.edit(imported, "\nclass Net", "\n# a note\nclass Net")
    await editor.until_seen(imported, BREAK)
    await editor.until_rest()
    assert counter.analyzed == 2
    blocks.write_text(editor.texts[imported])
    editor.save(imported)
    await until_run(editor, counter, 3)
    assert counter.analyzed == 3
    assert await editor.seen(uri) == [IN_A, IN_B]


async def test_a_file_that_changes_on_disk_counts(
    editor: Any, counter: Any, tmp_path: Path
) -> None:
    """As by a checkout: nobody edits or saves what imports it."""
    go = tmp_path / "go"
    blocks = editor.root / "blocks.py"
    uri = editor.open(
        "model.py", f"# stub: files blocks.py\n{PAIR}        third()  # until: {go}\n"
    )
    await editor.until_seen(uri, IN_A, IN_B)
    # While a run goes on that has looked for it.
    blocks.write_text("x = 1\n")
    await changed_on_disk(editor, blocks)
    await editor.until(lambda: counter.analyzed == 2)
    go.touch()
    await editor.until_rest()
    await changed_on_disk(editor, blocks)
    await changed_on_disk(editor, editor.root / "other.py")
    await editor.until_rest()
    assert counter.analyzed == 2
    blocks.unlink()
    await changed_on_disk(editor, blocks)
    await until_run(editor, counter, 3)
    assert await editor.seen(uri) == [IN_A, IN_B]


async def changed_on_disk(editor: Any, path: Path) -> None:
    event = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await editor.command("fullgraph.server.debugInformation")


async def test_what_an_earlier_session_found_is_not_traced_again(
    open_editor: Any, counter: Any, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    engine = f"waits={ready}"
    first = await open_editor(engine=engine)
    text = f"# stub: files\n{PAIR}"
    uri = first.open("model.py", text)
    await first.until_seen(uri, IN_A, IN_B)
    await first.until_state("ready")
    await first.shut_down()
    assert counter.analyzed == 1
    ready.unlink()
    again = await open_editor(engine=engine)
    # Something wrote a comment meanwhile.
    uri = again.open("model.py", text.replace("class B", "# a note\nclass B"))
    await again.until_seen(uri, IN_A, IN_B)
    titles = await again.titles(uri)
    assert titles and not any("cache" in title or "tracing" in title for title in titles)
    ready.touch()
    await again.until_state("ready")
    await again.until_rest()
    assert await again.seen(uri) == [IN_A, IN_B]
    assert counter.analyzed == 1
    again.edit(uri, "        second()", "        x = 2\n        second()")
    await until_run(again, counter, 2)
    assert await again.seen(uri) == [IN_A, IN_B]
    assert last_analyzed(counter).endswith(" -A")
    await again.command("fullgraph.server.analyze", uri)
    await again.until(lambda: counter.analyzed == 3)
    assert " -" not in last_analyzed(counter)


async def test_of_a_run_that_did_not_end_is_shown_what_it_had_found(
    open_editor: Any, counter: Any, tmp_path: Path
) -> None:
    ready, end = tmp_path / "ready", tmp_path / "end"
    ready.touch()
    engine = f"waits={ready}"
    text = f"# stub: files\n{PAIR}        third()  # until: {end}\n"
    first = await open_editor(engine=engine)
    uri = first.open("model.py", text)
    await first.until_seen(uri, IN_A, IN_B)
    await first.shut_down()
    ready.unlink()
    again = await open_editor(engine=engine)
    uri = again.open("model.py", text)
    # Of the target that went on as well.
    await again.until_seen(uri, IN_A, IN_B)
    assert (await again.titles(uri))[0].endswith(" · from the cache")
    ready.touch()
    end.touch()
    await again.until_state("ready")
    assert await again.seen(uri) == [IN_A, IN_B]


async def test_what_is_taken_back_after_its_run_costs_no_run(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", PAIR)
    await editor.until_seen(uri, IN_A, IN_B)
    for old, new in (("second()", "third()"), ("third()", "fourth()")):
        editor.edit(uri, old, new)
        await editor.until_seen(uri, IN_A, ("in B", new))
        await editor.until_rest()
    assert counter.analyzed == 3
    # Twice undone, and once redone.
    for old, new in (("fourth()", "third()"), ("third()", "second()"), ("second()", "third()")):
        editor.edit(uri, old, new)
        await editor.until_seen(uri, IN_A, ("in B", new))
    editor.save(uri)
    await editor.until_rest()
    assert counter.analyzed == 3
    # What holds of it is good for the next edit.
    editor.edit(uri, "third()", "fifth()")
    await until_run(editor, counter, 4)
    assert last_analyzed(counter).endswith(" -A")


async def test_what_is_taken_back_is_traced_where_what_it_read_has_changed(
    editor: Any, counter: Any
) -> None:
    blocks = editor.root / "blocks.py"
    blocks.write_text("x = 1\n")
    uri = editor.open("model.py", f"# stub: files blocks.py\nimport blocks\n{PAIR}")
    await editor.until_seen(uri, IN_A, IN_B)
    await editor.until_rest()
    editor.edit(uri, "second()", "third()")
    await until_run(editor, counter, 2)
    blocks.write_text("x = 20\n")
    editor.edit(uri, "third()", "second()")
    await until_run(editor, counter, 3)
    assert await editor.seen(uri) == [IN_A, IN_B]


async def test_what_is_asked_for_is_traced_whatever_is_known(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", PAIR)
    await editor.until_seen(uri, IN_A, IN_B)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.analyze", uri)
    await editor.until(lambda: counter.analyzed == 2)
    assert " -" not in last_analyzed(counter)


# -- many targets ---------------------------------------------------------------------------------

CHAIN = "import torch\n" + "".join(
    f"class Net{n}(torch.nn.Module):\n    part = {f'Net{n - 1}' if n % 3 else 'torch'}\n"
    for n in range(60)
)


def test_users_of_a_statement_are_all_that_reach_it() -> None:
    text = ParsedText(CHAIN)
    numbers = range(len(text.statements))
    for one in numbers:
        reaching = {number for number in numbers if one in text.find_closure([number])}
        assert text.find_users([one]) == reaching
    assert text.find_users([1, 4]) == text.find_users([1]) | text.find_users([4])


@pytest.mark.parametrize("inputs", ["found", "given", "uncalled"])
def test_the_work_for_a_target_does_not_grow_with_the_text(
    monkeypatch: pytest.MonkeyPatch, inputs: Inputs
) -> None:
    before, after = ParsedText(CHAIN), ParsedText(CHAIN.replace("part = Net57", "part = Net56"))
    change = align_statements(before, after)
    targets = [KnownTarget(f"Net{n}", inputs) for n in range(60)]
    calls = 0
    find_closure = ParsedText.find_closure

    def count(text: ParsedText, numbers: Iterable[int]) -> frozenset[int]:
        nonlocal calls
        calls += 1
        return find_closure(text, numbers)

    monkeypatch.setattr(ParsedText, "find_closure", count)
    kept = find_unaffected(before, after, change, targets)
    assert "Net0" in kept
    assert "Net58" not in kept
    assert calls <= 5 * len(targets)
