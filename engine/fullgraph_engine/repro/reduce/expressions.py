"""Passes of the reducer that replace expressions by their subexpressions or by constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .callees import Callees, required_arguments, required_by_import
from .edits import TreeEdit
from .program import ParsedProgram
from .syntax_index import SyntaxIndex
from .values import is_data

_DEEPEST = 6


def replace_by_variable(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace expressions by the first variable in them, outermost first."""
    index = program.index
    for level in _expressions_by_depth(index):
        edits: list[TreeEdit] = []
        for node in level:
            leaf = None if isinstance(node, (ast.Name, ast.Constant)) else index.value_in(node)
            if leaf is not None and not _is_idle(node, leaf, index):
                edits.append(TreeEdit({node: leaf}))
        yield edits[::-1]


def replace_by_child(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace expressions by one of their direct subexpressions."""
    index = program.index
    for level in _expressions_by_depth(index):
        first: list[TreeEdit] = []
        others: list[TreeEdit] = []
        for node in level:
            parts = [
                one for one in _replacement_parts(node, index) if not _is_idle(node, one, index)
            ]
            first.extend(TreeEdit({node: part}) for part in parts[:1])
            others.extend(TreeEdit({node: part}) for part in parts[1:])
        yield first[::-1]
        for edit in others:
            yield (edit,)


def drop_elements(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that remove arguments, keywords, list elements and comprehension conditions."""
    index = program.index
    needed = _minimal_calls(index)
    for level in _expressions_by_depth(index):
        edits: list[TreeEdit] = []
        for node in level:
            if node not in needed:
                edits.extend(TreeEdit(dict.fromkeys(parts)) for parts in _removable_parts(node))
        yield edits[::-1]


def replace_by_constant(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace expressions by 1, except names and expression statements."""
    index = program.index
    for level in _expressions_by_depth(index):
        yield [
            TreeEdit({node: ast.Constant(value=1)})
            for node in level
            if not (isinstance(node, ast.Constant) or _root_name(node))
            and not isinstance(index.parents[node], ast.Expr)
        ][::-1]


def drop_targets(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that turn assignments into expression statements."""
    edits: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                edits.append(TreeEdit({node: ast.Expr(value=value)}))
    yield edits[::-1]


def _is_idle(node: ast.expr, smaller: ast.expr, index: SyntaxIndex) -> bool:
    """Whether replacing ``node`` by ``smaller`` leaves a statement without any effect."""
    if not isinstance(index.parents[node], ast.Expr):
        return False
    if isinstance(smaller, ast.Name):
        return index.home_scope(smaller) is index.scopes[smaller]
    is_outside = index.scopes[node] is index.tree
    return (
        is_outside and isinstance(smaller, ast.Call) and _root_name(smaller.func) in index.imported
    )


def _minimal_calls(index: SyntaxIndex) -> set[ast.Call]:
    """Return the calls that pass only the arguments that the called function requires."""
    callees = Callees(index)
    found: set[ast.Call] = set()
    for function, sites in callees.sites.items():
        if not (function.args.vararg or function.args.kwarg):
            found |= {
                call
                for call, offset in sites
                if _count_arguments(call) <= required_arguments(function) - offset
            }
    return found | {
        node
        for node in ast.walk(index.tree)
        if isinstance(node, ast.Call)
        and _root_name(node.func) in index.imported
        and 0 < _count_arguments(node) <= required_by_import(node)
    }


def _count_arguments(call: ast.Call) -> int:
    return len(call.args) + len(call.keywords)


def _root_name(node: ast.expr) -> str:
    """Return the first name of a dotted name: ``torch`` for ``torch.nn.Linear``; "" for others."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _expressions_by_depth(index: SyntaxIndex) -> list[list[ast.expr]]:
    """Group the expressions that the program evaluates by their depth inside their statement.

    Names of modules are left out.
    """
    level: list[ast.expr] = []
    for node in ast.walk(index.tree):
        if isinstance(node, (ast.stmt, ast.arguments, ast.ExceptHandler, ast.match_case)):
            level.extend(_direct_expressions(node))
        elif isinstance(node, ast.withitem):
            level.append(node.context_expr)
    levels: list[list[ast.expr]] = []
    while len(levels) < _DEEPEST:
        level = [node for node in level if _root_name(node) not in index.imported]
        levels.append([node for node in level if _is_read(node)])
        level = [part for node in level for part in _inner_expressions(node)]
        if not level:
            break
    return levels


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))


def _direct_expressions(node: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        parts = value if isinstance(value, list) else [value]
        yield from (part for part in parts if isinstance(part, ast.expr))


def _inner_expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions directly inside a node; none for a list of constants."""
    if is_data(node):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, (ast.keyword, ast.comprehension, ast.Slice)):
            yield from _inner_expressions(child)


def _replacement_parts(node: ast.expr, index: SyntaxIndex) -> Iterator[ast.expr]:
    match node:
        case ast.List(elts=[_, _, *_]) | ast.Tuple(elts=[_, _, *_]) if is_data(node):
            return
        case ast.Call(func=func):
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            if isinstance(func, ast.Attribute) and not _root_name(func):
                yield func.value
            for value in values:
                yield value.value if isinstance(value, ast.Starred) else value
            if isinstance(func, ast.Attribute) and _root_name(func) not in {"", *index.imported}:
                yield func.value
            if isinstance(func, ast.Call):
                yield func
        case ast.Attribute(value=ast.Name()) | ast.Constant() | ast.Lambda() | ast.Slice():
            return
        case ast.IfExp():
            yield node.body
            yield node.orelse
            yield node.test
        case ast.Subscript():
            yield node.value
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            yield ast.List(elts=[node.elt], ctx=ast.Load())
            yield node.generators[0].iter
        case ast.Starred() | ast.JoinedStr() | ast.FormattedValue():
            return
        case _:
            yield from _inner_expressions(node)


def _removable_parts(node: ast.expr) -> Iterator[Sequence[ast.AST]]:
    """Yield groups of nodes to remove from an expression, such as single arguments.

    For a list of constants, one group is all but the first item, and another is the second half.
    """
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts) if is_data(node):
            if len(elts) > 1:
                yield elts[1:]
            if len(elts) > 2:
                yield elts[len(elts) // 2 :]
        case ast.Call() if ast.unparse(node.func) == "torch.compile":
            yield from ((keyword,) for keyword in node.keywords if keyword.arg != "backend")
        case ast.Call():
            yield from zip(node.keywords)
            yield from zip(node.args)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            yield from zip(parts)
        case ast.Dict(values=parts) | ast.JoinedStr(values=parts) | ast.BoolOp(values=parts):
            yield from zip(parts)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            for generator in node.generators:
                yield from zip(generator.ifs)
        case ast.Lambda():
            yield from zip(node.args.args)
