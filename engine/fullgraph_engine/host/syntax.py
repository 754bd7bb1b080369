"""Examine statements of a syntax tree before they are executed."""

from __future__ import annotations
import __future__

import ast
import re

from ..protocol import Position, Range, node_range
from ..scopes import names_bound_by, nodes_of_scope

_FROM = re.compile(rb"from[\s\\]*([.\w\x80-\xff]+)")


def lines_of(text: str) -> list[str]:
    """Split a text into lines as Python's parser does; unlike ``str.splitlines``, it does not split
    at a form feed."""
    return [line + "\n" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def code_of(lines: list[str]) -> list[str]:
    """Return the lines without comments and without empty lines. A ``#`` in a string counts as a
    comment."""
    codes = (line.partition("#")[0].rstrip() for line in lines)
    return [code for code in codes if code]


def same_beginning(one: ast.Module, other: ast.Module, count: int, *, places: bool) -> bool:
    """Whether the first ``count`` statements of two modules are equal; with ``places``, their
    positions must be equal too."""
    return len(one.body) >= count and all(
        ast.dump(left, include_attributes=places) == ast.dump(right, include_attributes=places)
        for left, right in zip(one.body[:count], other.body[:count], strict=False)
    )


def future_flags(tree: ast.Module) -> int:
    """Return the compiler flags of the file's ``from __future__`` imports."""
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def relative_level(tree: ast.Module) -> int:
    """Return the maximum number of dots in the file's relative imports."""
    levels = (node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return max(levels, default=0)


def imported_names(tree: ast.Module) -> set[str]:
    """Return the top-level names of the modules that the file imports absolutely."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def first_import_of(tree: ast.Module, package: str) -> ast.stmt | None:
    """Return the first statement that imports from a package, absolutely or relatively."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [package if node.level else node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == package.partition(".")[0] for name in names):
            return node
    return None


def head_of(node: ast.stmt, lines: list[str]) -> Range:
    """Return the range of a statement on one line, or of the first line of a longer one."""
    whole = node_range(node)
    if whole.end.line == whole.start.line:
        return whole
    text = lines[whole.start.line].rstrip() if whole.start.line < len(lines) else ""
    return Range(whole.start, Position(whole.start.line, len(text.encode())))


def module_range(node: ast.ImportFrom, lines: list[str]) -> Range:
    """Return the range of the module name in ``from name import ...``, which the syntax tree
    lacks."""
    whole = node_range(node)
    text = "".join(lines[whole.start.line : whole.end.line + 1]).encode()
    found = _FROM.match(text, whole.start.byte)
    if found is None:
        return head_of(node, lines)
    before = text[: found.start(1)]
    line = whole.start.line + before.count(b"\n")
    byte = found.start(1) - (before.rfind(b"\n") + 1)
    return Range(Position(line, byte), Position(line, byte + len(found[1])))


def bound_names(node: ast.stmt) -> list[str]:
    """Return the names that exist after a statement because it binds them, in the order of the
    text.

    The name after ``except … as`` is excluded, because Python deletes it after the block.
    """
    names = (
        name for one in nodes_of_scope([node]) if _stays_bound(one) for name in names_bound_by(one)
    )
    return list(dict.fromkeys(names))


def _stays_bound(node: ast.AST) -> bool:
    """Whether the names that a node binds still exist after the statement."""
    deletes = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    return not deletes and not isinstance(node, ast.ExceptHandler)


def used_names(node: ast.stmt) -> set[str]:
    """Return all names that a statement reads, including names inside of functions."""
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
    }


def is_compound(node: ast.stmt) -> bool:
    """Whether a statement contains other statements, such as a loop or ``try``. It may have bound
    some names before it failed."""
    return isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor)) or (
        type(node).__name__ in ("TryStar", "Match", "AsyncWith")
    )


def is_definition(node: ast.stmt) -> bool:
    """Whether a statement is a definition or an import, which is executed even after the module's
    time limit."""
    return isinstance(
        node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    )


def one_alias(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """Return a copy of the import statement ``node`` that imports only ``alias``, with the same
    source position."""
    single: ast.stmt
    if isinstance(node, ast.Import):
        single = ast.Import([alias])
    else:
        single = ast.ImportFrom(node.module, [alias], node.level)
    return ast.copy_location(single, node)


def imports_end(tree: ast.Module) -> int:
    """Return the number of statements in the import header of a file: docstring, imports, and
    ``try`` around imports."""
    for index, node in enumerate(tree.body):
        if not _is_header(node):
            return index
    return len(tree.body)


def _is_header(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Try):
        bodies = [*node.body, *node.orelse, *node.finalbody]
        bodies += [inner for handler in node.handlers for inner in handler.body]
        return all(_is_header(inner) or _is_constant(inner) for inner in bodies)
    return False


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    )


def line_distance(body: Range, first: int, last: int) -> int:
    """Return the number of lines between the statement ``body`` and the lines ``first`` to
    ``last``; 0 if they share a line."""
    return max(body.start.line - last, first - body.end.line, 0)
