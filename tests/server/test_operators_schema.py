"""Schemas read from their strings."""

from __future__ import annotations

import pytest

from fullgraph.operators.schema import (
    AliasInfo,
    SchemaArgument,
    SchemaError,
    SchemaResult,
    parse_schema,
)


def test_arguments_defaults_and_named_results() -> None:
    schema = parse_schema(
        'aten::max.dim(Tensor self, SymInt[2] dim=[1, -1], *, str? how="a, (b)", float p=-inf)'
        " -> (Tensor values, Tensor indices)"
    )
    assert (schema.name, schema.overload) == ("aten::max", "dim")
    assert schema.arguments == (
        SchemaArgument("self", "Tensor"),
        SchemaArgument("dim", "SymInt[2]", "[1, -1]"),
        SchemaArgument("how", "str?", '"a, (b)"', keyword_only=True),
        SchemaArgument("p", "float", "-inf", keyword_only=True),
    )
    assert schema.results == (SchemaResult("Tensor", "values"), SchemaResult("Tensor", "indices"))
    assert not schema.mutates


def test_a_default_may_be_called_like_a_number() -> None:
    schema = parse_schema("aten::nan_to_num(Tensor self, float? nan=None) -> Tensor")
    assert schema.arguments[1] == SchemaArgument("nan", "float?", "None")


def test_what_aliases_what() -> None:
    schema = parse_schema(
        "a::b.c(Tensor(a!) self, Tensor(b -> *) x, Tensor(c!)[] xs, Tensor[](d) ys, t(*)? any)"
        " -> (Tensor(a!), Tensor(b|c)[])"
    )
    own, moved, elements, whole, anything = (argument.alias for argument in schema.arguments)
    assert own == AliasInfo(("a",), ("a",), is_write=True)
    assert moved == AliasInfo(("b",), ("*",))
    assert elements == AliasInfo(("c",), ("c",), is_write=True, of_elements=True)
    assert whole == AliasInfo(("d",), ("d",))
    assert anything == AliasInfo(("*",), ("*",))
    assert [argument.type for argument in schema.arguments] == [
        "Tensor", "Tensor", "Tensor[]", "Tensor[]", "t?",
    ]  # fmt: skip
    assert schema.results[0].alias == own
    assert schema.results[1].alias == AliasInfo(("b", "c"), ("b", "c"), of_elements=True)
    assert schema.mutates


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("aten::f(Dict(str, t)(a!) self) -> ((str, t)[])", ["(str, t)[]"]),
        ("aten::f() -> (Tensor, t)[]", ["(Tensor, t)[]"]),
        ("aten::f() -> ()", []),
        ("aten::f() -> Future(t)", ["Future(t)"]),
        ("q::f(__torch__.torch.classes.q.P p, int[3]? n=None) -> Tensor?[]", ["Tensor?[]"]),
    ],
)
def test_types(text: str, types: list[str]) -> None:
    assert [result.type for result in parse_schema(text).results] == types


def test_schemas_that_leave_open_what_there_is() -> None:
    schema = parse_schema("prim::f(str self, ...) -> ...")
    assert (schema.open_arguments, schema.open_results) == (True, True)
    assert [argument.name for argument in schema.arguments] == ["self"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 0, "Expected the name of an operator, found nothing."),
        ("a::b(Tensor) -> Tensor", 11, "Expected the name of an argument, found `)`."),
        ("a::b(Tensor x -> Tensor", 14, "Expected `,`, found `->`."),
        ("a::b(Tensor x) Tensor", 15, "Expected `->`, found `Tensor`."),
        ("a::b(Tensor(a x) -> Tensor", 14, "Expected `)`, found `x`."),
        ("a::b(int x=) -> Tensor", 11, "Expected a default, found `)`."),
        ("a::b(int x) -> Tensor x, y", 23, "Expected the end of the schema, found `,`."),
        ("a::b(int € x) -> Tensor", 9, "`€` has no meaning in a schema."),
    ],
)
def test_what_is_no_schema_says_where(text: str, column: int, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert (caught.value.column, str(caught.value)) == (column, message)
