"""Strings that calls of torch.library take for schemas or names, and what is shown of them."""

from __future__ import annotations

import pytest

from fullgraph.operators import OperatorIndex
from fullgraph.operators.schema_string import SchemaString, schema_string_at
from fullgraph.render.operators import page_text
from fullgraph.render.operators.schema_page import page_of_schema
from fullgraph_engine.protocol.operators import Operator, Overload

HEAD = """\
import torch as t
from torch.library import define as declare, Library, custom_op
lib = t.library.Library("one", "DEF")
"""
INDEX = OperatorIndex.from_items(
    [Operator("a::b", (Overload("", "a::b(Tensor x) -> Tensor", "registered", place="f.py:3"),))]
)


def at(line: str) -> SchemaString | None:
    """The string at the ``|`` of a line."""
    text = HEAD + line
    offset = text.index("|")
    return schema_string_at(text.replace("|", ""), offset)


@pytest.mark.parametrize(
    ("line", "schema", "before"),
    [
        ('lib.define("op(Tensor |x) -> Tensor")', "one::op(Tensor x) -> Tensor", "op(Tensor "),
        ('lib.define("op(Ten|', "one::op(Ten", "op(Ten"),
        ('lib.define(schema="|op(")', "one::op(", ""),
        ('self.lib.define("op(|)")', "op()", "op("),
        ('Library("two", "DEF").define("op(|)")', "two::op()", "op("),
        ('declare("a::b", "(Tensor x, " r"int |n)")', "a::b(Tensor x, int n)", "(Tensor x, int "),
        ('declare("a::b", schema="(|)")', "a::b()", "("),
        ('declare(name, "(|)")', "op()", "("),
        ('"😀"; declare("a::b", "(str s=\'\\x41é\', |")', "a::b(str s='Aé', ", "(str s='Aé', "),
        ('@custom_op("a::b", mutates_args=(), schema="(Tensor |x)', "a::b(Tensor x)", "(Tensor "),
        ('declare("a::b", """(\n  Tensor |x)""")', "a::b(\n  Tensor x)", "(\n  Tensor "),
    ],
)  # fmt: skip
def test_a_schema_is_found_with_the_name_in_front(line: str, schema: str, before: str) -> None:
    found = at(line)
    assert found is not None
    assert (found.part, found.schema) == ("schema", schema)
    assert found.value[: found.cursor] == before


@pytest.mark.parametrize(
    "line",
    [
        'print("op(|)")',
        'declare(f"{n}::b", f"(|)")',
        'lib.impl("op(|)", f)',
        'custom_op("a::b", f, mutates_args="x|")',
        'other.define("wor|d")',
        '# lib.define("op(|")',
        'x = "(|Tensor x) -> Tensor"',
        "lib.define(|)",
        'lib.define("a()")|',
    ],
)
def test_other_strings_are_no_schemas(line: str) -> None:
    assert at(line) is None


def test_names_are_found_in_every_call_of_the_library() -> None:
    for line in ('t.library.register_fake("a::|b")', 't.library.impl("a|::b", "CPU")'):
        found = at(line)
        assert found is not None
        assert (found.part, found.qualname) == ("name", "a::b")


def shown(line: str) -> str:
    found = at(line)
    assert found is not None
    page = page_of_schema(INDEX, found)
    return "" if page is None else page_text(page)


def test_what_is_shown_of_a_schema() -> None:
    text = shown('lib.define("op(Tensor(a!) |x, *, int? n=None) -> Tensor(a!)")')
    assert "one::op(Tensor(a!) x, *, int? n=None) -> Tensor(a!)" in text
    assert "written to" in text
    assert "keyword-only" in text
    assert "Registered" not in text


def test_what_is_shown_of_a_schema_that_is_registered() -> None:
    assert "Registered at f.py:3" in shown('declare("a::b", "(Tensor |x)  -> Tensor")')
    assert "a different schema" in shown('declare("a::b", "(Tensor |x) -> Tensor[]")')
    assert "a different schema" not in shown('declare("a::c", "(Tensor |x) -> Tensor[]")')


def test_what_is_shown_of_a_name() -> None:
    assert "Registered at f.py:3" in shown('t.library.register_fake("a::|b")')
    assert shown('t.library.register_fake("a::|c")') == ""


def test_a_schema_that_is_not_finished_says_what_is_missing() -> None:
    assert "Expected ->" in shown('lib.define("op(Tensor x|)")')
