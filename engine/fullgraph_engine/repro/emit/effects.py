"""Module-level statements that affect a generated program, such as changes of torch's settings."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

from ...scopes import free_names
from . import definitions, sources
from .printer import ProgramBuilder
from .sources import Home

# Functions whose calls change how code is traced or computed.
_CALLS = (
    "torch._dynamo.",
    "torch.compiler.",
    "torch.fx.wrap",
    "torch.library.",
    "torch.set_default_dtype",
    "torch.set_default_device",
    "torch.set_float32_matmul_precision",
    "torch.set_grad_enabled",
    "torch.use_deterministic_algorithms",
    "torch.utils._pytree.",
    "torch.backends.",
    "torch.autograd.set_detect_anomaly",
)


def copy_effects(program: ProgramBuilder, home: Home, operators: Collection[str]) -> None:
    """Copy module-level statements that affect how the generated program runs, such as settings of
    torch.

    ``home`` is the user's module. ``operators`` are the namespaces of the custom operators that the
    program calls.
    """
    if home.text is None or home.origin in ("torch", "standard"):
        return
    for node in sources.statements_of(home.text.tree.body):
        if has_needed_effect(program, home, node, operators):
            definitions.copy_statement(program, home, node, is_effect=True)


def operator_namespaces(node: ast.AST) -> set[str]:
    """Return the namespaces of custom operators in code, such as `mine` in `torch.ops.mine.op`."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            parts = _dotted_names(inner)
            if parts[:2] == ["torch", "ops"] and len(parts) > 2:
                found.add(parts[2])
    return found


def has_needed_effect(
    program: ProgramBuilder, home: Home, node: ast.stmt, operators: Collection[str]
) -> bool:
    """Whether the generated program must contain a copy of a module-level statement because of the
    statement's effect.

    It must if the statement sets an attribute of torch (``torch._dynamo.config.x = ...``), calls a
    function in ``_CALLS``, or names a namespace in ``operators``. It must also if the statement
    changes or calls something in the program (``Net.forward = ...``). For definitions only the
    decorators are considered.
    """
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        roots = [_dotted_names(decorator) for decorator in node.decorator_list]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        roots = [_dotted_names(node.value)]
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        # Item or attribute: `torch._dynamo.config.x = ...`, `Net.forward = ...`.
        roots = [_dotted_names(target) for target in targets if not isinstance(target, ast.Name)]
        if not roots:
            return _has_operator(node, operators)
    else:
        return False
    if _has_operator(node, operators):
        return True
    is_definition = isinstance(node, (ast.FunctionDef, ast.ClassDef))
    for root in roots:
        path = _absolute_path(home, root)
        if path is None:
            continue
        if path.startswith("torch."):
            if is_definition:
                continue  # a definition is copied with the function that uses it
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                return True
            if path.startswith(_CALLS):
                return _is_known(program, home, node)
        elif root[1:] and program.has_definition(home, root[0]):
            # `op.register_fake(...)`, `Net.forward = ...`
            return True
        elif isinstance(node, ast.Expr) and root == ["setattr"]:
            return _is_known(program, home, node)
    return False


def _is_known(program: ProgramBuilder, home: Home, node: ast.AST) -> bool:
    """Whether the generated program already defines all values of user modules that a statement
    reads.
    """
    for name in free_names(node):
        if name not in home.namespace:
            continue
        value = home.namespace[name]
        module = _module_of(value)
        if module is not None and sources.origin_of(module) in ("torch", "standard"):
            continue
        if isinstance(value, (bool, int, float, str, type(None))):
            continue
        if not program.has_definition(home, name):
            return False
    return True


def _module_of(value: Any) -> str | None:
    name = getattr(value, "__name__", None) if type(value).__name__ == "module" else None
    found = name if isinstance(name, str) else getattr(value, "__module__", None)
    return found if isinstance(found, str) else None


def _absolute_path(home: Home, root: list[str]) -> str | None:
    """Return a dotted name with aliases resolved: ``nn.init`` becomes ``torch.nn.init``.

    ``root`` are the parts of the name; an empty list gives None.
    """
    if not root:
        return None
    value = home.namespace.get(root[0])
    if type(value).__name__ == "module":
        return ".".join([value.__name__, *root[1:]])  # type: ignore[union-attr]
    if callable(value) and isinstance(getattr(value, "__name__", None), str):
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and sources.origin_of(module) == "torch":
            return ".".join([module, value.__name__, *root[1:]])
    return ".".join(root)


def _dotted_names(node: ast.expr) -> list[str]:
    """Return the names in an expression like `a.b.c`, ignoring calls and subscripts in it."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            return [node.id, *parts]
        else:
            return []


def _has_operator(node: ast.AST, operators: Collection[str]) -> bool:
    """Whether a statement names a custom operator ``namespace::op`` or creates a library for one.

    ``operators`` are the namespaces to look for.
    """
    return any(
        text.partition("::")[0] in operators and ("::" in text or _is_library(node))
        for text in _string_constants(node)
    )


def _is_library(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and _dotted_names(value)[-1:] == ["Library"]


def _string_constants(node: ast.AST) -> Iterator[str]:
    parts: list[ast.AST] = [node]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        parts = [*node.decorator_list]
    for part in parts:
        for inner in ast.walk(part):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value
