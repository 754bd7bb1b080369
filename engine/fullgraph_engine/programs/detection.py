"""Detect from its syntax tree whether a file is a program that compiles something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ..targets import comments
from ..targets.source import last_name

_COMPILES = re.compile(
    r"(?<!\bre)\.(compile|export|optimize)\b|\bimport .*\b(compile|export)\b|compiler?\.[a-z]"
)
"""Matches ``torch.compile``, ``model.compile`` and ``torch.export``, but not ``re.compile``."""
_MOST_FILES = 200
"""Maximum number of imported files to search for ``torch.compile`` and similar calls."""


def is_program(text: str, path: str, roots: tuple[str, ...] = ()) -> bool:
    """Whether a file with the source ``text`` should be run as a program.

    The file must do something when it is executed. The file, or a workspace file that it imports,
    must mention ``compile`` or ``export``. No comment may turn fullgraph off. ``roots`` are the
    folders of the workspace.

    Raises:
        SyntaxError: The source does not parse.
    """
    tree = ast.parse(text)
    if comments.file_off(comments.read_comments(text), tree) is not None:
        return False
    return does_something(tree) and _mentions_compiling(text, tree, path, roots)


def does_something(tree: ast.Module) -> bool:
    """Whether executing a file does more than define, import and construct objects.

    This is the case if it has a ``__main__`` block, or if top-level code calls a function or object
    that the file itself defines. A file with relative imports needs a ``__main__`` block, because
    Python cannot execute it by its path.
    """
    if any(isinstance(node, ast.ImportFrom) and node.level for node in tree.body):
        return any(isinstance(node, ast.If) and _is_main(node.test) for node in tree.body)
    own = set(_bound_names(tree))
    return any(_has_effect(node, own) for node in tree.body)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the functions and variables that a file defines at top level."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.For, ast.With)):
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    yield one.id


def _has_effect(node: ast.stmt, own: set[str]) -> bool:
    if isinstance(node, ast.If) and _is_main(node.test):
        return True
    if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        inside = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt))
        return any(_has_effect(one, own) for one in inside)
    if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Assert)):
        called = [one.func for one in _executed_nodes(node) if isinstance(one, ast.Call)]
        if any(_root_name(function) in own or _uses_compiled(function) for function in called):
            return True
        # A call such as ``main()`` counts too, if the function is imported from another file.
        return isinstance(node, ast.Expr) and any(isinstance(one, ast.Name) for one in called)
    return False


def _executed_nodes(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without the bodies of lambdas."""
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if not isinstance(one, ast.Lambda):
            waiting += ast.iter_child_nodes(one)


def _uses_compiled(function: ast.expr) -> bool:
    """Whether a call expression calls the result of ``torch.compile``, or
    ``torch.export.export``."""
    if isinstance(function, ast.Call):
        return last_name(function.func) == "compile"
    return last_name(function) == "export"


def _root_name(function: ast.expr) -> str:
    """Return the variable at the beginning of an expression: ``net`` of ``net(x).sum``.

    For ``(f if test else g)(x)``, it is ``f``.
    """
    node: ast.expr = function
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.IfExp):
            node = node.body
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _is_main(test: ast.expr) -> bool:
    """Whether the condition of an ``if`` compares ``__name__``, as in ``if __name__ ==
    "__main__"``.
    """
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))


def _mentions_compiling(text: str, tree: ast.Module, path: str, roots: tuple[str, ...]) -> bool:
    if _COMPILES.search(text):
        return True
    folders = (str(Path(path).parent), *roots)
    waiting, seen = list(_imported_files(tree, folders)), {Path(path)}
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        try:
            imported = file.read_text(encoding="utf-8", errors="replace")
            if _COMPILES.search(imported):
                return True
            waiting += _imported_files(ast.parse(imported), (str(file.parent), *folders))
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
    return False


def _imported_files(tree: ast.Module, folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield the workspace files that a file imports, according to its import statements.

    ``folders`` are searched for them.
    """
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
        for name in filter(None, names):
            for folder in folders:
                file = Path(folder, *name.split("."))
                for found in (file.with_suffix(".py"), file / "__init__.py"):
                    if found.is_file():
                        yield found
