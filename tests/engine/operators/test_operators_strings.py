"""Schema strings: every character has its place, and what is called wrong is what torch refuses."""

from __future__ import annotations

import ast
import sys
import textwrap
from typing import Any

import pytest
import torch

from fullgraph_engine.operators import fake
from fullgraph_engine.operators.definitions import (
    check_registered_operators,
    find_invalid_definitions,
)
from fullgraph_engine.operators.faults import Fault, parse_or_fault, valid_types
from fullgraph_engine.operators.strings import OperatorDefinition, find_definitions, locate_string
from fullgraph_engine.protocol import Range
from fullgraph_engine.targets.source import byte_lines

pytestmark = pytest.mark.real_engine


def cut(text: str, where: Range) -> str:
    lines = [line + b"\n" for line in byte_lines(text)]
    lines = lines[where.start.line : where.end.line + 1]
    lines[-1] = lines[-1][: where.end.byte]
    lines[0] = lines[0][where.start.byte :]
    return b"".join(lines).decode()


# -- strings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        '"plain"',
        "u'plain'",
        r'"a\tb\\c\"d\'e\x41\u00e9\U0001f525\N{BULLET}\101\7\q\d"',
        r'r"a\tb\"c\\"',
        "R'''a\n\\'''' \"b\"",
        '"""lines\n  of \'text\' and "quotes"\n"""',
        '"joined " \'with\' """ others"""',
        '"with "  # a "comment"\n   "pieces" \\\n  r"\\n"',
        '"continued \\\n  here"',
        '"""continued \\\n  here"""',
        '"é" "🔥🔥" "\u2028\x0c" "x"',
        '""',
        '"" "a" ""',
        '"a" + "b" + ("c" "d")',
    ],
)
def test_every_character_has_the_place_where_it_is_written(source: str) -> None:
    text = f"'é🔥'; x = ({source})\n"
    node = ast.parse(text).body[1].value  # type: ignore[attr-defined]
    found = locate_string(node, byte_lines(text))
    assert found is not None
    assert found.value == eval(f"({source})")
    assert len(found.places) == len(found.value)
    for character, place in zip(found.value, found.places, strict=True):
        written = cut(text, place)
        if len(written) > 1:
            written = ast.literal_eval(f'"{written}"')
        assert written == character
    positions = [(p.start.line, p.start.byte) for p in found.places]
    assert positions == sorted(set(positions))
    assert cut(text, found.end)[-1] in "'\""


@pytest.mark.parametrize("source", ['f"{x}"', '"a" f"b"', "x", "'a' + x", "b'a'", "'a' % x", "1"])
def test_what_is_not_constant_is_no_string(source: str) -> None:
    node = ast.parse(source, mode="eval").body
    assert locate_string(node, byte_lines(source)) is None


def test_lines_may_end_as_on_windows() -> None:
    text = 'import torch\r\ntorch.library.define(\r\n  "a::b",\r\n  "(Tnsor x) -> Tensor")\r\n'
    (wrong,) = find_invalid_definitions(text)
    assert cut(text, wrong.finding.range) == "Tnsor"


# -- definitions ------------------------------------------------------------------------------


def found_in(text: str) -> list[OperatorDefinition]:
    text = textwrap.dedent(text)
    return find_definitions(ast.parse(text), text)


def test_a_library_is_known_by_every_name_it_is_given() -> None:
    found = found_in(
        """
        from torch import library as L
        one = two = L.Library("one", "DEF")
        self.deep.lib = L.Library(ns="deep", kind="DEF")
        three = one
        if (four := L.Library(name, "DEF")): pass
        def f(five: L.Library, six: "list"):
            five.define("a(")
        two.define("b(")
        self.deep.lib.define("c(")
        three.define("d.e(")
        four.define("f(")
        six.define("g(")
        L.Library("seven", "DEF").define("h(")
        one.impl("b", f)
        libs[0].define("i(")
        """
    )
    assert [each.qualname for each in found] == [
        "", "one::b", "deep::c", "one::d.e", "", "seven::h",
    ]  # fmt: skip


def test_a_name_that_is_bound_twice_is_what_it_was_last() -> None:
    found = found_in(
        """
        import torch
        lib = torch.library.Library("one", "DEF")
        lib.define("a()")
        lib = torch.library.Library("two", "DEF")
        lib.define("a()")
        """
    )
    assert [each.qualname for each in found] == ["one::a", "two::a"]


def test_arguments_of_custom_op_are_taken_if_they_are_written_out() -> None:
    first, second = found_in(
        """
        import torch
        from torch import Tag
        @torch.library.custom_op("a::b", mutates_args=["x"], tags=(torch.Tag.out, Tag.core))
        def f(x): ...
        torch.library.custom_op(name, f, mutates_args=names, schema=schema, tags=tags)
        """
    )
    assert (first.qualname, first.function, first.mutates) == ("a::b", "f", frozenset("x"))
    assert first.tags == frozenset({"out", "core"})
    assert (second.qualname, second.schema, second.mutates, second.tags) == ("", None, None, None)


@pytest.mark.parametrize("text", ["", "def (", "x = 1", "torch.library.define(*a, **b)", "a\0b"])
def test_other_texts_have_no_definitions(text: str) -> None:
    assert find_invalid_definitions("import torch\n" + text) == []
    assert check_registered_operators("import torch\n" + text) == []


# -- what torch refuses -----------------------------------------------------------------------

CALLS = r"""
lib.define("a1(Tensor x) -> Tensor")
lib.define("a2(Tnsor x) -> Tensor")
lib.define("a3(Tensor x)\n-> Tensor")
lib.define("a4(\nTensor x)-> Tensor\n")
lib.define(" a5 (Tensor x, Tensor x) -> (Tensor x, Tensor x)")
lib.define("agree::a6() -> ()")
lib.define("other::a7() -> ()")
lib.define("a8(int x=1, Tensor y) -> Tensor")
lib.define("a9.default() -> ()")
lib.define("a10(int x=99999999999999999999) -> ()")
lib.define("a11(float x=1e999) -> ()")
lib.define("a12")
lib.define("a13(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
lib.define("a14(Tensor\u00a0x) -> Tensor")
lib.define("a15(Tensor x\0) -> Tensor")
lib.define("a16(str s='é🔥', Tensor(a!)[] x=[]) -> Tensor(a!)[]")
lib.define("a17(str s='é🔥', int x=[) -> ()")
lib.define("a18(Tensor(a -> *) x, ..., int y) -> ()")
lib.define("a19(Tensor(a|b) x, ...) -> ...")
lib.define("a20(__torch__.torch.classes.a.B y) -> ()")
lib.define("a21(Dict(str, int) d, (int, str) t, int?[]? l) -> None")
lib.define("a22(Tensor x) -> Tensor -> Tensor")
torch.library.define("agree::b1", "(Tensor x) -> Tensor")
torch.library.define("agree::b2", "(Tensor x)->Tensor")
torch.library.define("agree::b3", "(Tensor x,\nint y) -> Tensor")
torch.library.define("agree::b4", "(Tensor x) -> Tensor\n")
torch.library.define("agree::b5", " (Tensor x) -> Tensor")
torch.library.define("agree::b6", "b6(Tensor x) -> Tensor")
torch.library.define("agree::b7", "")
torch.library.define("b8", "(Tensor x) -> Tensor")
torch.library.define("agree::b9::c", "(Tensor x) -> Tensor")
torch.library.define("prim::b10", "(Tensor x) -> Tensor")
torch.library.define("agree::b-11", "(Tensor x) -> Tensor")
torch.library.define("agree::b12.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
torch.library.define("agree::b13", "(Tensor x) ->  Tensor")
torch.library.define("agree::b14", "(Tensor x)  -> Tensor")
torch.library.define("agree::", "(Tensor x) -> Tensor")
torch.library.custom_op("agree::c1", f, mutates_args=(), schema="(Tensor x) -> Tensor")
torch.library.custom_op("agree::c2", f, mutates_args=(), schema=" (\nTensor x)->Tensor")
torch.library.custom_op("agree::c3", f, mutates_args=(), schema="c3(Tensor x) -> Tensor")
torch.library.custom_op("agree::c4", f, mutates_args=["x"], schema="(Tensor x) -> Tensor")
torch.library.custom_op("agree::c5", f, mutates_args="x", schema="(Tensor(a!) x) -> ()")
torch.library.custom_op("agree::c6", f, mutates_args="unknown", schema="(Tensor(a!) x) -> ()")
torch.library.custom_op("agree::c7", f, mutates_args=(), schema="(Tensor x, *, Tensor y) -> ()")
torch.library.custom_op("agree::c8", f, mutates_args=(), schema="(Tensor x, *, int y) -> Tensor")
torch.library.custom_op("c9", f, mutates_args=(), schema="(Tensor x) -> Tensor")
torch.library.custom_op("agree::c-10", f, mutates_args=(), schema="(Tensor x) -> Tensor")
torch.library.custom_op("agree::c11.default", f, mutates_args=(), schema="(Tensor x) -> Tensor")
torch.library.custom_op("agree::c12", f, mutates_args=(), schema="(Tnsor x) -> Tensor")
torch.library.custom_op("a::b::c13", g, mutates_args=())
torch.library.custom_op("agree::c14", g, mutates_args=())
torch.library.custom_op("agree::c 15", g, mutates_args=())
"""
if hasattr(torch.library, "_validate_inplace_schema"):
    CALLS += r"""
lib.define("d1(Tensor x) -> Tensor", tags=torch.Tag.inplace)
lib.define("d2(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
lib.define("d3(Tensor x, *, Tensor(a) out) -> Tensor", tags=[torch.Tag.out])
"""


def g(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@pytest.mark.parametrize("call", CALLS.strip().split("\n"))
def test_a_definition_is_wrong_if_and_only_if_torch_refuses_it(call: str) -> None:
    # A string of a template cannot hold the line breaks themselves; the calls are source.
    text = f'import torch\nlib = torch.library.Library("agree", "FRAGMENT")\n{call}\n'
    found = find_invalid_definitions(text)
    namespace: dict[str, Any] = {"f": lambda x: x, "g": g}
    refused = None
    try:
        exec(compile(text, "agree.py", "exec"), namespace)
    except Exception as error:
        refused = error
    said = [wrong.finding.message for wrong in found]
    assert bool(said) == (refused is not None), (said, refused)
    for wrong in found:
        assert wrong.finding.code == "schema/invalid"
        assert "\n" not in wrong.finding.message
        assert "HERE" not in wrong.finding.message
        assert ".h" not in wrong.finding.message
        assert cut(text, wrong.finding.range)
        assert cut(text, wrong.call) == call


# -- where the parser sees it -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "token", "message"),
    [
        ("f(Tensor x,\n\tint a,\n\tTnsor y) -> Tensor", "Tnsor", "Unknown type `Tnsor`"),
        ("f(" + "Tensor a,\n" * 12 + "Tnsor a) -> Tensor", "Tnsor", "Unknown type `Tnsor`"),
        ("f(" + "Tensor a,\n" * 5 + "Tnsor a,\n" + "Tensor a,\n" * 5, "Tnsor", "Unknown type"),
        ("f(str é) -> ()", "é", "`é` has no meaning"),
        ("f(str s='é', int 🔥) -> ()", "🔥", "`🔥` has no meaning"),
        pytest.param(
            "f(Tensor\u00a0x) -> ()",
            "\u00a0",
            r"`\xa0` has no meaning",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 11), reason="the parser's words do not come through"
            ),
        ),
        ("f(Tensor x\n) ->\nTensor", "\n", "Expected a name but found a line break"),
        ("f(int[] x=[1, two]) -> ()", "two", "`two` is not a valid default value"),
        ("f(float x=-)->()", ")", "Expected a number but found `)`"),
        ("f(Tensor x, int x=1, Tensor y) -> ()", "y", "`y` has no default"),
    ],
)
def test_the_token_that_the_parser_stops_at(schema: str, token: str, message: str) -> None:
    fault = parse_or_fault(schema)
    assert isinstance(fault, Fault)
    assert (schema[fault.start : fault.stop], message in fault.message) == (token, True), fault
    if token in "Tnsor two":
        assert fault.start == schema.index(token)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Tensr", "Did you mean `Tensor`?"),
        ("symint", ""),
        ("Symint", "Did you mean `SymInt`?"),
        ("Optional", "In a schema it is written `T?`."),
        ("Zzzzzz", "`Tensor`, `int`"),
    ],
)
def test_what_to_write_in_place_of_an_unknown_type(name: str, hint: str) -> None:
    fault = parse_or_fault(f"f({name} x) -> ()")
    if not hint:  # the parser takes it for a type variable
        assert not isinstance(fault, Fault)
        return
    assert isinstance(fault, Fault)
    assert hint in fault.hints[0]


def test_types_that_are_offered_exist() -> None:
    assert {"Tensor", "int", "SymInt", "ScalarType"} <= set(valid_types())
    for name in valid_types():
        assert not isinstance(parse_or_fault(f"f({name} x) -> ()"), Fault)


# -- fake kernels -------------------------------------------------------------------------------


def test_how_fake_tensors_get_through_what_torch_has() -> None:
    assert fake.fake_support("aten::add.Tensor") == "meta"
    assert fake.fake_support("aten::matmul") == "composite"
    for name in ("aten::add", "aten::no_such", "nothing", "", "a::b::c", "a::", "a b::c"):
        assert fake.fake_support(name) == "unknown"


def test_how_fake_tensors_get_through_what_a_file_defines() -> None:
    library = torch.library.Library("agreefake", "FRAGMENT")
    for schema in ("a(Tensor x) -> Tensor", "b(Tensor x) -> Tensor", "c(Tensor x) -> Tensor"):
        library.define(schema)
    library.impl("b", lambda x: x, "Meta")
    library.impl("c", lambda x: x, "CPU")
    assert not fake.has_fake("agreefake::a")
    assert fake.fake_support("agreefake::b") == "meta"
    assert not fake.has_fake("agreefake::c")
    torch.library.register_fake("agreefake::c", lambda x: x, lib=library)
    assert fake.fake_support("agreefake::c") == "kernel"
    operator = torch.library.custom_op("agreefake::d", g, mutates_args=())
    assert not fake.has_fake("agreefake::d")
    operator.register_fake(lambda x: x)
    assert fake.has_fake("agreefake::d")
