"""Static slicing of a file: the statements that define some names and their dependencies."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...scopes import bound_names, uses
from .sources import is_main_guard


def slice_of(text: str, names: Collection[str]) -> str:
    """Return the statements of a file that define these names or their dependencies, in file order.

    Imports keep only used names. The ``__main__`` block is removed. A statement without bindings is
    kept if all the file's names in it are kept. Raises SyntaxError if the text is not valid Python.
    """
    tree = ast.parse(text)
    parts = [_FileStatement(node) for node in tree.body if not _is_script(node)]
    binding: dict[str, list[_FileStatement]] = {}
    for part in parts:
        for name in part.binds:
            binding.setdefault(name, []).append(part)
    imported = {name for part in parts if part.is_import for name in part.binds}
    kept: set[int] = set()
    wanted = set(names)
    seen: set[str] = set()
    while True:
        while wanted:
            name = wanted.pop()
            seen.add(name)
            for part in binding.get(name, ()):
                kept.add(id(part))
                wanted |= part.needs - seen
        for part in parts:
            if id(part) not in kept and part.has_needed_effect(seen, set(binding), imported):
                kept.add(id(part))
                wanted |= part.needs - seen
        if not wanted:
            break
    body = [part.cut_import(seen) for part in parts if id(part) in kept or part.is_always_kept]
    if not body:
        return ""
    return ast.unparse(ast.Module(body, [])) + "\n"


class _FileStatement:
    """A top-level statement of a sliced file, with the names that it binds and reads."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node
        self.is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        self.is_assignment = isinstance(node, (ast.Assign, ast.AugAssign))
        self.is_always_kept = isinstance(node, ast.ImportFrom) and (
            node.module == "__future__" or any(alias.name == "*" for alias in node.names)
        )
        self.binds = bound_names([node])
        found = [use.node for use in uses(node)]
        self.needs = {name.id for name in found} - self.binds
        if isinstance(node, ast.AugAssign):
            self.needs |= self.binds
        self.changes = self._changed_names()

    def _changed_names(self) -> set[str]:
        """Return the names whose values the statement may change."""
        node = self.node
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return {name for name in map(_root_name, targets) if name}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return {_root_name(node.value)} - {""} or self.needs
        return set()

    def has_needed_effect(self, kept: set[str], known: set[str], imported: set[str]) -> bool:
        """Whether it changes a kept value or an import: `Net.forward = other`, `config.x = 1`.

        ``kept`` are names in the slice, ``known`` all names of the file, ``imported`` names of
        imports.
        """
        if self.is_import or self.binds or not self.changes:
            return False
        own = self.changes & known - imported
        if not own <= kept or not (own or self.changes & imported):
            return False
        return self.is_assignment or self.needs & known - imported <= kept

    def cut_import(self, names: set[str]) -> ast.stmt:
        """Return the statement; if it is an import, it keeps only these names."""
        node = self.node
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or self.is_always_kept:
            return node
        aliases = [
            alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names
        ]
        if isinstance(node, ast.Import):
            return ast.Import(aliases)
        return ast.ImportFrom(node.module, aliases, node.level)


def _is_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and is_main_guard(node.test) and not node.orelse


def _root_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
