"""Static detection of names whose read would raise NameError.

Inside a function, a name counts as bound if any statement of the function binds it.
"""

from __future__ import annotations

import ast
import builtins

from ...scopes import bound_names, uses

_BUILT_IN = frozenset(dir(builtins)) | {"__file__", "__name__", "__class__"}


def find_unbound_names(tree: ast.Module) -> frozenset[str]:
    """Return the names read before any binding; empty if a star import hides bindings."""
    if any(isinstance(node, ast.alias) and node.name == "*" for node in ast.walk(tree)):
        return frozenset()
    so_far = set(_BUILT_IN)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            so_far.update(node.names)  # functions may bind these at any time
    at_the_end = so_far | bound_names(tree.body)
    missing: set[str] = set()
    for statement in tree.body:
        own = bound_names([statement])
        if not isinstance(statement, ast.Assign):
            so_far |= own
        missing |= {
            use.node.id
            for use in uses(statement)
            if isinstance(use.node.ctx, ast.Load)
            and use.node.id not in (so_far if use.eager else at_the_end)
        }
        so_far |= own
    return frozenset(missing)
