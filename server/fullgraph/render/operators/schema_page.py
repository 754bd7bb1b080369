"""Build the documentation page of a schema string, such as the argument of
``torch.library.define``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.schema import Schema, SchemaArgument, SchemaError, parse_schema
from fullgraph.operators.schema_string import SchemaString
from fullgraph.operators.subject import Subject
from fullgraph.render.operators.aliasing import describe_aliasing
from fullgraph.render.operators.builder import page_of
from fullgraph.render.operators.page import OperatorPage, PageSection, non_empty
from fullgraph_engine.protocol.operators import Operator, Overload


def page_of_schema(index: OperatorIndex | None, found: SchemaString) -> OperatorPage | None:
    """Describe a schema string, and its operator if it is registered; None without a valid schema
    and without an operator."""
    registered = _registered_page(index, found)
    if found.part == "name":
        return registered
    try:
        schema = parse_schema(found.schema)
    except SchemaError as error:
        return _error_page(found, error)
    if registered is not None and _has_same_schema(registered, schema):
        sections = (_arguments_section(schema), *registered.sections)
        return dataclasses.replace(registered, sections=non_empty(*sections))
    differs = "The operator that is registered in torch has a different schema."
    remarks = () if registered is None else (differs,)
    words = describe_aliasing(schema, composite=False)
    return OperatorPage(
        path=found.qualname,
        kind="schema",
        signatures=(" ".join(found.schema.split()),),
        remarks=remarks,
        sections=non_empty(
            _arguments_section(schema),
            PageSection("Aliasing and mutation", items=(words,) if words else ()),
        ),
    )


def _registered_page(index: OperatorIndex | None, found: SchemaString) -> OperatorPage | None:
    name, _, overload = found.qualname.partition(".")
    operator = index.operator(name) if index is not None and name else None
    if index is None or operator is None:
        return None
    chosen = next(
        (candidate for candidate in operator.overloads if candidate.name == overload), None
    )
    if found.part == "schema" and chosen is None:
        return None
    path = _operator_path(operator, chosen if overload else None)
    shown = chosen if found.part == "schema" or overload else None
    return page_of(index, Subject(found.start, found.end, path, operator=operator, overload=shown))


def _operator_path(operator: Operator, overload: Overload | None) -> str:
    path = f"torch.ops.{operator.name.replace('::', '.')}"
    return path if overload is None else f"{path}.{overload.name}"


def _has_same_schema(page: OperatorPage, schema: Schema) -> bool:
    try:
        own = parse_schema(page.overloads[0].overload.schema)
    except (SchemaError, IndexError):
        return False
    return (own.arguments, own.results) == (schema.arguments, schema.results)


def _error_page(found: SchemaString, error: SchemaError) -> OperatorPage:
    return OperatorPage(
        path=found.qualname,
        kind="schema",
        signatures=(" ".join(found.schema.split()),),
        remarks=(f"This is not a schema yet. {error}",),
    )


def _arguments_section(schema: Schema) -> PageSection:
    return PageSection(
        "Arguments", items=tuple(_argument_item(argument) for argument in schema.arguments)
    )


def _argument_item(argument: SchemaArgument) -> str:
    return f"`{argument.name}`: {', '.join(_argument_words(argument))}"


def _argument_words(argument: SchemaArgument) -> Iterator[str]:
    yield f"`{argument.type}`"
    if argument.type.endswith("?"):
        yield "may be `None`"
    if argument.default:
        yield f"`{argument.default}` by default"
    if argument.keyword_only:
        yield "keyword-only"
    if argument.is_written:
        yield "written to"
