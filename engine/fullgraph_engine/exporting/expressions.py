"""Rewrite expressions on symbolic sizes, such as ``u0 > 3``, in the names of the user's
function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

_SHAPE = re.compile(r"^Tensor\(shape: torch\.Size\(\[(?P<sizes>[^\]]*)\]\)")
_SYMBOL = re.compile(r"[a-z]+\d+")
_SIZE = re.compile(r"^L\['(?P<name>\w+)'\]\.size\(\)\[(?P<axis>\d+)\]$")

_COMPARED: dict[str, type[ast.cmpop]] = {"Eq": ast.Eq, "Ne": ast.NotEq}
_OPERATORS: dict[str, type[ast.operator]] = {
    "Mod": ast.Mod,
    "PythonMod": ast.Mod,
    "FloorDiv": ast.FloorDiv,
    "CleanDiv": ast.FloorDiv,
}
_FUNCTIONS = {"Max": "max", "Min": "min"}
_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


def local_names(locals_: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an expression on local variables for each symbol: ``{"u0": "z.shape[0]"}``.

    ``locals_`` are pairs of a variable's name and a description of its value.
    """
    names: dict[str, str] = {}
    for name, words in locals_:
        if not name.isidentifier():
            continue
        if _SYMBOL.fullmatch(words):
            # Prefer an integer variable: its name is shorter than a size expression.
            names[words] = name
            continue
        shape = _SHAPE.match(words)
        for axis, size in enumerate(shape["sizes"].split(",") if shape else ()):
            if _SYMBOL.fullmatch(size.strip()):
                names.setdefault(size.strip(), f"{name}.shape[{axis}]")
    return names


def source_names(sources: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an expression in the user's code for each symbol; ``L['x'].size()[0]`` becomes
    ``x.shape[0]``.

    ``sources`` are pairs of a symbol and Dynamo's name of its source.
    """
    names = {}
    for symbol, source in sources:
        size = _SIZE.match(source)
        if size is not None:
            names[symbol] = f"{size['name']}.shape[{size['axis']}]"
    return names


def rewrite_expression(expression: str, names: Mapping[str, str], *, holds: bool = True) -> str:
    """Return an expression on symbols as Python source, with each symbol replaced by its expression
    in ``names``.

    The result is empty if a symbol is not in ``names``. With ``holds=False`` the expression is
    negated.
    """
    try:
        tree = _SymbolRenamer(names).visit(ast.parse(expression, mode="eval").body)
    except (SyntaxError, LookupError):
        return ""
    if not holds:
        tree = _negate(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def _negate(tree: ast.expr) -> ast.expr:
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        return ast.Compare(tree.left, [_INVERSE[type(tree.ops[0])]()], tree.comparators)
    return ast.UnaryOp(ast.Not(), tree)


class _SymbolRenamer(ast.NodeTransformer):
    """A transformer of sympy's expressions to Python source: symbols become names, and sympy
    functions become operators.

    Raises:
        LookupError: A symbol lacks a name, or a function lacks a Python equivalent.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self._names[node.id], mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        args = [self.visit(argument) for argument in node.args]
        if name in _COMPARED and len(args) == 2:
            return ast.Compare(args[0], [_COMPARED[name]()], [args[1]])
        if name in _OPERATORS and len(args) == 2:
            return ast.BinOp(args[0], _OPERATORS[name](), args[1])
        return ast.Call(ast.Name(_FUNCTIONS[name]), args, [])
