"""What a file offers to its probes: parameters, classes, sizes that it speaks of already."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.probes.comments import comment_on, definition_of
from fullgraph.probes.tokens import around, tokens

LONGEST = 200_000
"""Characters up to which a text is parsed while somebody waits."""

_NOTATION = re.compile(r"['\"][a-z]\w*\[[^]'\"\n]*\]['\"]")


@dataclass(frozen=True)
class Parameter:
    """A parameter, with its annotation and default as they are written; empty where none."""

    name: str
    annotation: str = ""
    default: str = ""


@dataclass(frozen=True)
class Class:
    """A class that a probe may name, with what it is constructed from."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    is_dataclass: bool = False


@dataclass(frozen=True)
class Definition:
    """The class or function that a probe belongs to. ``methods``: the parameters of each."""

    name: str
    is_class: bool
    methods: dict[str, tuple[Parameter, ...]]
    called: str = "forward"
    """The method that a probe is about where it names none."""


@dataclass(frozen=True)
class Scope:
    """What is known where a probe stands."""

    definition: Definition | None
    classes: tuple[Class, ...]
    sizes: tuple[str, ...]
    """Those of other probes and annotations, the most frequent first."""


def scope_at(text: str, positions: TextPositions, line: int) -> Scope:
    """The scope of the probe on a line."""
    tree = _parsed(text)
    sizes = _sizes(positions, line)
    if tree is None:
        return Scope(None, (), sizes)
    at = definition_of(positions, line) + 1
    definition = next(_definitions(tree, at), None)
    return Scope(definition, tuple(_classes(tree)), sizes)


def _parsed(text: str) -> ast.Module | None:
    if len(text) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _definitions(tree: ast.Module, line: int) -> Iterator[Definition]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == line:
            yield Definition(node.name, False, {node.name: _parameters(node)}, node.name)
        elif isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            own = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            methods = {one.name: _parameters(one)[1:] for one in own}
            here = next((one.name for one in own if one.lineno == line), "forward")
            called = "forward" if here == "__init__" else here
            if node.lineno == line or any(one.lineno == line for one in own):
                yield Definition(node.name, True, methods, called)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Parameter, ...]:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    pairs = [*zip(plain, defaults, strict=True), *named]
    return tuple(
        Parameter(one.arg, _unparsed(one.annotation), _unparsed(default)) for one, default in pairs
    )


def _unparsed(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _classes(tree: ast.Module) -> Iterator[Class]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            decorators = [_unparsed(one).partition("(")[0] for one in node.decorator_list]
            yield Class(
                node.name,
                tuple(_constructed_from(node)),
                any(one.rpartition(".")[2] == "dataclass" for one in decorators),
            )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                if re.match(r"[A-Z]\w*[a-z]", name):
                    yield Class(name)


def _constructed_from(node: ast.ClassDef) -> Iterator[Parameter]:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            yield from _parameters(statement)[1:]
            return
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotation = _unparsed(statement.annotation)
            yield Parameter(statement.target.id, annotation, _unparsed(statement.value))


def _sizes(positions: TextPositions, line: int) -> tuple[str, ...]:
    counted: Counter[str] = Counter()
    for at in range(len(positions)):
        comment = comment_on(positions, at) if at != line else None
        written = [comment.text] if comment is not None else []
        written += (found.strip("'\"") for found in _NOTATION.findall(positions.line(at)))
        for text in written:
            counted.update(_sizes_of(text))
    return tuple(size for size, _ in counted.most_common())


def _sizes_of(text: str) -> Iterator[str]:
    """The sizes of all tensors of a probe; of ``b=4`` only ``b``."""
    before = ""
    for token in tokens(text):
        if token.kind in ("size", "number") and before != "=" and around(text, token.start).sizes:
            yield token.text
        before = token.text
