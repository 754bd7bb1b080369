"""A pass of the reducer that replaces imported names by dotted names of imported modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import Replacement, TreeEdit
from .places import SyntaxIndex
from .program import ParsedProgram


def use_dotted_names(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Replace ``from torch import nn`` and ``nn.Linear`` by ``torch.nn.Linear``."""
    places = SyntaxIndex.from_tree(program.tree)
    roots = {
        alias.name
        for node in program.tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None
    }
    edits: list[TreeEdit] = []
    for node in program.tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        for alias in node.names:
            path = alias.name
            if isinstance(node, ast.ImportFrom):
                path = f"{node.module}.{alias.name}"
                if node.level or node.module == "__future__" or alias.name == "*":
                    continue
            elif alias.asname is None:
                continue
            root = path.partition(".")[0]
            if root not in roots and "." in path:
                continue
            name = alias.asname or alias.name
            changes: dict[ast.AST, Replacement] = {alias: None}
            if root not in roots:
                changes[alias] = ast.alias(name=path)
            changes.update(
                (use, ast.parse(path, mode="eval").body)
                for use in places.uses_in(program.tree, name)
            )
            edits.append(TreeEdit(changes))
        if isinstance(node, ast.Import):
            # ``import torch.nn`` is redundant after ``import torch``.
            edits.extend(
                TreeEdit({alias: None})
                for alias in node.names
                if "." in alias.name and alias.asname is None
            )
    yield edits
