"""Names of the functions of a file, as in ``__qualname__``."""

from __future__ import annotations

import ast

from .comments import first_line


class FunctionNames:
    """The qualified names of a file's functions; code objects have them only from Python 3.11."""

    def __init__(self, tree: ast.AST | None) -> None:
        self._functions: list[tuple[int, int, str]] = []
        """Zero-based first and last line and name of each function, enclosing functions before
        nested ones.
        """
        if tree is not None:
            self._note_functions(tree, "")

    def _note_functions(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                if not isinstance(child, ast.ClassDef):
                    # A code object begins with its first decorator.
                    first, last = first_line(child), (child.end_lineno or child.lineno) - 1
                    self._functions.append((first, last, f"{prefix}{child.name}"))
                self._note_functions(child, f"{prefix}{child.name}.")
            elif not isinstance(child, ast.expr):
                self._note_functions(child, prefix)

    def lines_of(self, name: str) -> list[int]:
        """Return the zero-based first lines of the functions with the full name ``name``."""
        return [first for first, _, known in self._functions if known == name]

    def name_at(self, function: str, line: int) -> str:
        """Return the qualified name of the function called ``function`` that contains a zero-based
        line.

        ``forward`` becomes ``Attention.forward``; the name is returned unchanged if the file does
        not have this function.
        """
        for first, last, name in reversed(self._functions):
            if first <= line <= last and name.rpartition(".")[2] == function:
                return name
        return function
