"""Pairs of functions of a file in which one builds a model and the other makes its example input.

The two match by name (``build_x`` and ``example_input_x``, ``example_x``, ``x_input``), or because
a table of the file names them in one row: ``("ResNet", "build_resnet", "example")``.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..protocol import Range, node_range
from .source import FileDefinitions, byte_lines, name_range, required_parameters

_BUILD = re.compile(r"_*(build|make|create)(_\w+)?")
_EXAMPLE = re.compile(r"_*(example|sample)_inputs?(_|$)")
_GENERIC = (
    "example_input",
    "example_inputs",
    "get_example_input",
    "get_example_inputs",
    "sample_input",
    "sample_inputs",
    "example",
)


@dataclass(frozen=True)
class Pair:
    """A function that builds a model, and the function that makes its input, as expressions of
    the file.

    ``range`` covers the builder's name.
    """

    builder: str
    example: str
    range: Range
    definition: str
    """Name of the file's function that builds the model; empty if the function is imported."""


def find_pairs(source: FileDefinitions) -> tuple[Pair, ...]:
    """Return the pairs of a model builder and a function that makes its example input, in the order
    of the builders."""
    lines = byte_lines(source.text)
    found: dict[tuple[str, str], Pair] = {}
    listed: set[str] = set()
    for builder, example, place in _table_rows(source):
        listed.add(builder)
        found.setdefault((builder, example), _make_pair(source, builder, example, place, lines))
    for builder in _builder_names(source):
        name = _example_for(source, builder)
        if builder not in listed and name:
            found[builder, name] = _make_pair(source, builder, name, None, lines)
    if _only_aliases(source, found):
        found = {key: pair for key, pair in found.items() if key[0] != "build"}
    return tuple(sorted(found.values(), key=lambda pair: _sort_key(pair.range)))


def _sort_key(place: Range) -> tuple[int, int]:
    return place.start.line, place.start.byte


def _make_pair(
    source: FileDefinitions,
    builder: str,
    example: str,
    place: Range | None,
    lines: tuple[bytes, ...],
) -> Pair:
    if builder in source.functions:
        return Pair(builder, example, name_range(source.functions[builder], lines), builder)
    if builder in source.imported_at:
        return Pair(builder, example, node_range(source.imported_at[builder]), "")
    if place is not None:
        return Pair(builder, example, place, "")
    return Pair(builder, example, node_range(source.assignments[builder]), "")


def _defined_names(source: FileDefinitions) -> set[str]:
    return {*source.functions, *source.assignments, *source.imports}


def _builder_names(source: FileDefinitions) -> Iterator[str]:
    for name in (*source.functions, *source.assignments, *source.imports):
        if _BUILD.fullmatch(name) and _callable_without_arguments(source, name):
            yield name


def _callable_without_arguments(source: FileDefinitions, name: str) -> bool:
    function = source.functions.get(name)
    return function is None or not required_parameters(function)


def _example_for(source: FileDefinitions, builder: str) -> str:
    names = _defined_names(source)
    match = _BUILD.fullmatch(builder)
    suffix = (match[2] or "") if match is not None else ""
    if suffix:
        stem = suffix.lstrip("_")
        for candidate in (
            f"example_input{suffix}",
            f"example_inputs{suffix}",
            f"sample_input{suffix}",
            f"example{suffix}",
            f"example{suffix}_input",
            f"example{suffix}_inputs",
            f"{stem}_example_input",
            f"{stem}_input",
            f"{stem}_inputs",
        ):
            if _is_example(source, candidate, names):
                return candidate
    for candidate in _GENERIC:
        if _is_example(source, candidate, names) and (
            not suffix or _builds_module(source, builder)
        ):
            return candidate
    return ""


def _is_example(source: FileDefinitions, name: str, names: set[str]) -> bool:
    return name in names and _callable_without_arguments(source, name)


def _builds_module(source: FileDefinitions, builder: str) -> bool:
    """Whether a function returns a module, by its annotation or its ``return`` statements."""
    function = source.functions.get(builder)
    if function is None:
        return False
    if function.returns is not None:
        text = ast.unparse(function.returns).strip("'\"")
        if text.endswith("Module") or text in source.classes:
            return True
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            value = source.without_moves(node.value)
            if (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id in source.classes
            ):
                return source.is_module(source.classes[value.func.id])
    return False


def _only_aliases(source: FileDefinitions, found: dict[tuple[str, str], Pair]) -> bool:
    """Whether the file's name ``build`` is only an alias of another builder with an example
    input."""
    value = source.assignments.get("build")
    return isinstance(value, ast.Name) and any(key[0] == value.id for key in found)


def _table_rows(source: FileDefinitions) -> Iterator[tuple[str, str, Range]]:
    """Yield a builder, an example input and their range for each row of a table that names both."""
    names = _defined_names(source)
    for value in _table_expressions(source):
        for node in ast.walk(value):
            for left, right in itertools.pairwise(_row_elements(node)):
                both = (_name_in_row(source, left, names), _name_in_row(source, right, names))
                if all(both) and _is_row(*both) and _all_callable(source, both):
                    yield (*both, node_range(left))


def _table_expressions(source: FileDefinitions) -> Iterator[ast.expr]:
    for name, value in source.assignments.items():
        if not isinstance(value, (ast.Constant, ast.Name)) and name != "__all__":
            yield value
    for statement in source.statements:
        # ``ENTRIES += rows(…)``, ``ENTRIES.append((…))``
        if isinstance(statement, ast.AugAssign) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        ):
            yield statement.value


def _row_elements(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else []


def _is_row(builder: str, example: str) -> bool:
    builds, named = (
        _BUILD.fullmatch(one.rpartition(".")[2]) is not None for one in (builder, example)
    )
    return not named and (builds or _EXAMPLE.match(example.rpartition(".")[2]) is not None)


def _all_callable(source: FileDefinitions, names: tuple[str, ...]) -> bool:
    return all(_callable_without_arguments(source, name) for name in names)


def _name_in_row(source: FileDefinitions, element: ast.expr, names: set[str]) -> str:
    """Return the name of a function or class to which one element of a row of a table refers.

    The element is the name itself, the name as a string, or an attribute of an imported module.
    ``names`` are the names that the file defines. Return "" if it refers to none.
    """
    if isinstance(element, ast.Constant) and isinstance(element.value, str):
        return element.value if element.value in names else ""
    if isinstance(element, ast.Name):
        return element.id if element.id in names else ""
    if isinstance(element, ast.Attribute):
        text = ast.unparse(element)
        return text if text.partition(".")[0] in source.imports else ""
    return ""
