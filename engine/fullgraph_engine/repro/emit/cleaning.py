"""Removal of docstrings and unused annotations from definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ...scopes import free_names
from ...targets.source import last_name

# Decorators that do not read the annotations of a function.
_BLIND_NAMES = """
abstractmethod allow_in_graph assume_constant_result autocast cache cached_property classmethod
compile contextmanager custom_bwd custom_fwd disable enable_grad final getter inference_mode
is_compiling lru_cache mark_compile_region no_grad once_differentiable override profile property
setter staticmethod substitute_in_graph total_ordering wraps
"""
_BLIND = frozenset(_BLIND_NAMES.split())


def needs_annotations(cls: type) -> bool:
    """Whether code may read the annotations in a class body at run time, as ``dataclass`` does."""
    return "__dataclass_fields__" in dir(cls) or issubclass(cls, tuple) or type(cls) is not type


def clean_definition(
    tree: Any, keep_annotations: bool, lazy_annotations: bool, known: Callable[[str], bool]
) -> Any:
    """Remove docstrings and unused annotations from the syntax tree of a definition; return it.

    ``known`` says whether a name is defined in the generated program. ``keep_annotations`` keeps
    all annotations. With ``lazy_annotations``, an annotation with unknown names becomes a string.
    """
    return _Cleaning(keep_annotations, lazy_annotations, known).visit(tree)


class _Cleaning(ast.NodeTransformer):
    def __init__(self, keep: bool, lazy: bool, known: Callable[[str], bool]) -> None:
        self._keep, self._lazy, self._known = keep, lazy, known
        self._in_class = False
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._clean_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._clean_function(node)

    def _clean_function(self, node: Any) -> ast.AST:
        decorators = [getattr(one, "func", one) for one in node.decorator_list]
        if all(last_name(one) in _BLIND for one in decorators):
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        else:
            if node.returns is not None:
                node.returns = self._kept_annotation(node.returns)
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg) and argument.annotation is not None:
                    argument.annotation = self._kept_annotation(argument.annotation)
        outer, self._in_class = self._in_class, False
        return self._clean_body(node, outer)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._in_class = self._in_class, True
        keep = self._keep
        if self._depth:
            # Decide by the syntax of a nested class: its decorators or bases may read annotations.
            self._keep = bool(node.decorator_list or node.bases)
        self._clean_body(node, outer)
        self._keep = keep
        return node

    def _clean_body(self, node: Any, outer: bool) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        self._in_class = outer
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        if not node.body:
            node.body = [ast.Pass()]
        return node  # type: ignore[no-any-return]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if self._in_class and self._keep:
            node.annotation = self._kept_annotation(node.annotation)
            return node
        if node.value is None:
            return None if self._in_class else ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _kept_annotation(self, annotation: ast.expr) -> ast.expr:
        if self._lazy and not all(self._known(name) for name in free_names(annotation)):
            return ast.Constant(ast.unparse(annotation))
        return annotation
