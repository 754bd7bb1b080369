"""Find the names that code reads and binds, and rename them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import libcst as cst
import libcst.matchers as m

_Node = TypeVar("_Node", bound=cst.CSTNode)

_EMPTY = cst.Module([])


def code_of(node: cst.CSTNode) -> str:
    """Return the source code of a node, without surrounding whitespace."""
    return _EMPTY.code_for_node(node)


class _Reader(cst.CSTVisitor):
    """A visitor that collects the variables, attributes and elements that code reads and binds.

    They are in the order of the code. Attributes and elements (``self.steps``, ``x[0]``) are
    spelled as in the code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, None] = {}
        self.bound: dict[str, None] = {}

    def visit_Name(self, node: cst.Name) -> None:
        self.read[node.value] = None

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.read[code_of(node)] = None
        node.value.visit(self)
        return False

    def visit_Subscript(self, node: cst.Subscript) -> None:
        self.read[code_of(node)] = None

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        self.bound[node.name.value] = None
        if node.default is not None:
            node.default.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        self._bind(node.target)
        return False

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        if node.value is not None:
            node.value.visit(self)
            self._bind(node.target)
        return False

    def visit_AugAssign(self, node: cst.AugAssign) -> bool:
        node.value.visit(self)
        node.target.visit(self)
        self._bind(node.target)
        return False

    def visit_NamedExpr(self, node: cst.NamedExpr) -> bool:
        node.value.visit(self)
        self._bind(node.target)
        return False

    def visit_For(self, node: cst.For) -> bool:
        node.iter.visit(self)
        self._bind(node.target)
        node.body.visit(self)
        if node.orelse is not None:
            node.orelse.visit(self)
        return False

    def visit_AsName(self, node: cst.AsName) -> bool:
        self._bind(node.name)
        return False

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        name = node.asname.name if node.asname is not None else node.name
        self.bound[code_of(name).split(".")[0]] = None
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound[node.name.value] = None

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound[node.name.value] = None

    def _bind(self, target: cst.CSTNode) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value)
        elif isinstance(target, cst.Name):
            self.bound[target.value] = None
        elif isinstance(target, (cst.Attribute, cst.Subscript)):
            self.bound[code_of(target)] = None
            target.value.visit(self)
            if isinstance(target, cst.Subscript):
                for part in target.slice:
                    part.visit(self)


def _all(nodes: Sequence[cst.CSTNode]) -> _Reader:
    reader = _Reader()
    for node in nodes:
        node.visit(reader)
    return reader


def names_read(*nodes: cst.CSTNode) -> dict[str, None]:
    """Return the variables, attributes and elements that code reads, in order, as dictionary keys.

    Examples are ``x``, ``self.steps`` and ``x[0]``; the values of the dictionary are None.
    """
    return _all(nodes).read


def names_bound(*nodes: cst.CSTNode) -> dict[str, None]:
    """Return the variables, attributes and elements that code binds, in order, as dictionary keys.

    Examples are ``x``, ``self.steps`` and ``x[0]``; the values of the dictionary are None.
    """
    return _all(nodes).bound


class _Renaming(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        pass

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self._names.get(original_node.value)
        return updated_node.with_changes(value=new) if new is not None else updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        new = self._names.get(code_of(original_node))
        if new is not None:
            return cst.Name(new)
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        new = self._names.get(code_of(original_node))
        return cst.Name(new) if new is not None else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def rename_variables(node: _Node, names: Mapping[str, str]) -> _Node:
    """Return a node with variables, attributes and elements renamed.

    ``names`` maps their old code to the new code.
    """
    if not names:
        return node
    new = node.visit(_Renaming(names))
    assert isinstance(new, cst.CSTNode)
    return new


def walk(*nodes: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield nodes and their descendants, but not the contents of nested functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield from walk(*node.children)


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all its descendants, parents before children, in the order of the text."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def find_all(
    node: cst.CSTNode, kind: type[_Node], pattern: m.BaseMatcherNode | None = None
) -> Iterator[_Node]:
    """Yield a node and its descendants of the class ``kind``, in the order of the text; with
    ``pattern``, only nodes that match it."""
    for one in descendants(node):
        if isinstance(one, kind) and (pattern is None or m.matches(one, pattern)):
            yield one


def variable_nodes(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the nodes that mention variables, without names of attributes and keywords."""
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from variable_nodes(node.value)
    else:
        for child in node.children:
            yield from variable_nodes(child)


def variables_in(node: cst.CSTNode) -> Iterator[str]:
    """Yield the variables that code mentions, without names of attributes and keywords."""
    return (one.value for one in variable_nodes(node))


def names_read_first(*nodes: cst.CSTNode) -> set[str]:
    """Return the names that statements read before one of them binds them."""
    found: set[str] = set()
    bound: set[str] = set()
    for node in nodes:
        found |= names_read(node).keys() - bound
        bound |= names_bound(node).keys()
    return found


def named_parameters(function: cst.FunctionDef) -> list[str]:
    """Return the parameters of a function without ``*args`` and ``**kwargs``."""
    params = function.params
    given = (*params.posonly_params, *params.params, *params.kwonly_params)
    return [one.name.value for one in given]


def local_names(*functions: cst.FunctionDef) -> set[str]:
    """Return the parameters of functions, and what their code binds."""
    return {name for one in functions for name in names_bound(one.params, one.body)}
