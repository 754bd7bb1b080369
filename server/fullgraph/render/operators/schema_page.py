"""The page of a schema string: the operator that it defines, as far as it is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.schema import Schema, SchemaArgument, SchemaError, parse_schema
from fullgraph.operators.schema_string import SchemaString
from fullgraph.operators.subject import Subject
from fullgraph.render.operators.aliasing import aliasing
from fullgraph.render.operators.builder import page_of
from fullgraph.render.operators.page import OperatorPage, Section
from fullgraph_engine.protocol.operators import Operator, Overload


def page_of_schema(index: OperatorIndex | None, found: SchemaString) -> OperatorPage | None:
    """What a schema says in words, and what is known of the operator if it is registered."""
    registered = _registered(index, found)
    if found.part == "name":
        return registered
    try:
        schema = parse_schema(found.schema)
    except SchemaError as error:
        return _unreadable(found, error)
    if registered is not None and _says(registered, schema):
        sections = (_arguments(schema), *registered.sections)
        return dataclasses.replace(registered, sections=_filled(sections))
    remarks = () if registered is None else ("The registered operator has another schema.",)
    words = aliasing(schema, composite=False)
    return OperatorPage(
        path=found.qualname,
        kind="schema",
        signatures=(" ".join(found.schema.split()),),
        remarks=remarks,
        sections=_filled(
            (_arguments(schema), Section("Aliasing and mutation", items=(words,) if words else ()))
        ),
    )


def _registered(index: OperatorIndex | None, found: SchemaString) -> OperatorPage | None:
    name, _, overload = found.qualname.partition(".")
    operator = index.operator(name) if index is not None and name else None
    if index is None or operator is None:
        return None
    chosen = next((one for one in operator.overloads if one.name == overload), None)
    if found.part == "schema" and chosen is None:
        return None
    path = _path(operator, chosen if overload else None)
    shown = chosen if found.part == "schema" or overload else None
    return page_of(index, Subject(found.start, found.end, path, operator=operator, overload=shown))


def _path(operator: Operator, overload: Overload | None) -> str:
    path = f"torch.ops.{operator.name.replace('::', '.')}"
    return path if overload is None else f"{path}.{overload.name}"


def _says(page: OperatorPage, schema: Schema) -> bool:
    try:
        own = parse_schema(page.overloads[0].overload.schema)
    except (SchemaError, IndexError):
        return False
    return (own.arguments, own.results) == (schema.arguments, schema.results)


def _unreadable(found: SchemaString, error: SchemaError) -> OperatorPage:
    return OperatorPage(
        path=found.qualname,
        kind="schema",
        signatures=(" ".join(found.schema.split()),),
        remarks=(f"This is not a schema yet. {error}",),
    )


def _arguments(schema: Schema) -> Section:
    return Section("Arguments", items=tuple(_argument(one) for one in schema.arguments))


def _argument(argument: SchemaArgument) -> str:
    return f"`{argument.name}`: {', '.join(_words(argument))}"


def _words(argument: SchemaArgument) -> Iterator[str]:
    yield f"`{argument.type}`"
    if argument.type.endswith("?"):
        yield "may be `None`"
    if argument.default:
        yield f"`{argument.default}` if not given"
    if argument.keyword_only:
        yield "by keyword only"
    if argument.is_written:
        yield "written to"


def _filled(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.code or section.items)
