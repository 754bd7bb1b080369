"""Collect the names of a file that its ``# fullgraph:`` comments can use: parameters, classes and
sizes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental.statements import parse_quietly
from fullgraph.probes.comments import comment_on, definition_of
from fullgraph.probes.tokens import open_brackets_at, probe_tokens

LONGEST = 200_000
"""Maximum length in characters of a text to parse while the user waits for completions."""

_NOTATION = re.compile(r"['\"][a-z]\w*\[[^]'\"\n]*\]['\"]")


@dataclass(frozen=True)
class ProbeParameter:
    """A parameter of a function; its annotation and default are source text, empty if missing."""

    name: str
    annotation: str = ""
    default: str = ""


@dataclass(frozen=True)
class ProbeClass:
    """A class that a probe may create an instance of, with the parameters of its constructor."""

    name: str
    parameters: tuple[ProbeParameter, ...] = ()
    is_dataclass: bool = False


@dataclass(frozen=True)
class ProbedDefinition:
    """The class or function whose example inputs a comment describes.

    ``methods`` maps each method to its parameters without ``self``; for a function, the only key is
    its own name.
    """

    name: str
    is_class: bool
    methods: dict[str, tuple[ProbeParameter, ...]]
    called: str = "forward"
    """Method or function that receives the inputs if the comment does not name one."""


@dataclass(frozen=True)
class ProbeScope:
    """The names that a probe (a comment with example inputs) can use at one line of a file."""

    definition: ProbedDefinition | None
    """Definition that the probe belongs to; None if the line is not at a definition."""
    classes: tuple[ProbeClass, ...]
    sizes: tuple[str, ...]
    """Tensor sizes such as ``b`` that other comments and annotations of the file use, the most
    frequent first."""


def scope_at(text: str, positions: TextPositions, line: int) -> ProbeScope:
    """Return the names that the ``# fullgraph:`` comment on a line can use.

    Only sizes are collected if the text has a syntax error or is too long.
    """
    tree = _parse_unless_long(text)
    sizes = _count_sizes(positions, line)
    if tree is None:
        return ProbeScope(None, (), sizes)
    at = definition_of(positions, line) + 1
    definition = next(_find_definitions(tree, at), None)
    return ProbeScope(definition, tuple(_find_classes(tree)), sizes)


def _parse_unless_long(text: str) -> ast.Module | None:
    if len(text) > LONGEST:
        return None
    try:
        return parse_quietly(text)
    except SyntaxError:
        return None


def _find_definitions(tree: ast.Module, line: int) -> Iterator[ProbedDefinition]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == line:
            yield ProbedDefinition(
                node.name, False, {node.name: _function_parameters(node)}, node.name
            )
        elif isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            own = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            methods = {one.name: _function_parameters(one)[1:] for one in own}
            here = next((one.name for one in own if one.lineno == line), "forward")
            called = "forward" if here == "__init__" else here
            if node.lineno == line or any(one.lineno == line for one in own):
                yield ProbedDefinition(node.name, True, methods, called)


def _function_parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> tuple[ProbeParameter, ...]:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    pairs = [*zip(plain, defaults, strict=True), *named]
    return tuple(
        ProbeParameter(one.arg, _unparse_optional(one.annotation), _unparse_optional(default))
        for one, default in pairs
    )


def _unparse_optional(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _find_classes(tree: ast.Module) -> Iterator[ProbeClass]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            decorators = [_unparse_optional(one).partition("(")[0] for one in node.decorator_list]
            yield ProbeClass(
                node.name,
                tuple(_constructed_from(node)),
                any(one.rpartition(".")[2] == "dataclass" for one in decorators),
            )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                if re.match(r"[A-Z]\w*[a-z]", name):
                    yield ProbeClass(name)


def _constructed_from(node: ast.ClassDef) -> Iterator[ProbeParameter]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            yield from _function_parameters(statement)[1:]
            return
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotation = _unparse_optional(statement.annotation)
            yield ProbeParameter(
                statement.target.id, annotation, _unparse_optional(statement.value)
            )


def _count_sizes(positions: TextPositions, line: int) -> tuple[str, ...]:
    counted: Counter[str] = Counter()
    for at in range(len(positions)):
        comment = comment_on(positions, at) if at != line else None
        written = [comment.text] if comment is not None else []
        written += (found.strip("'\"") for found in _NOTATION.findall(positions.line(at)))
        for text in written:
            counted.update(_sizes_of(text))
    return tuple(size for size, _ in counted.most_common())


def _sizes_of(text: str) -> Iterator[str]:
    """Yield the sizes of all tensors in a probe, for example ``b`` and ``8`` of ``f32[b=4, 8]``."""
    before = ""
    for token in probe_tokens(text):
        if (
            token.kind in ("size", "number")
            and before != "="
            and open_brackets_at(text, token.start).sizes
        ):
            yield token.text
        before = token.text
