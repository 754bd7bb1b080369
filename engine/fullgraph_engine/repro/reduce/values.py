"""Passes of the reducer that simplify numbers, strings and tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import TreeEdit
from .program import ParsedProgram

_FACTORIES = frozenset(
    {"randn", "rand", "zeros", "empty", "randint", "full", "normal", "arange", "tensor"}
)
_SIZES = (1, 2)
_FEW = 4


def shrink_numbers(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that make numbers smaller: all together, then equal ones together, then each
    one.

    The numbers of a long list change together.
    """
    whole: dict[int, list[ast.Constant]] = {}
    parts: list[ast.Constant] = []
    lists = list(_number_lists(program.tree))
    within = {node for nodes in lists for node in nodes}
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Constant) and node not in within:
            if isinstance(node.value, bool):
                continue
            if isinstance(node.value, int):
                whole.setdefault(node.value, []).append(node)
            elif isinstance(node.value, float):
                parts.append(node)
    for small in _SIZES:
        edits = [
            _replace_numbers(nodes, small)
            for number, nodes in sorted(whole.items(), reverse=True)
            if number > small
        ]
        yield edits
        yield [_replace_numbers(nodes, small) for nodes in lists]
        for nodes in whole.values():
            if len(nodes) > 1:
                yield [_replace_numbers([node], small) for node in nodes if node.value != small]
    for number, nodes in sorted(whole.items(), reverse=True):
        for smaller in (4, 8, number // 2):
            if 2 < smaller < number:
                yield (_replace_numbers(nodes, smaller),)
    yield [
        TreeEdit({node: ast.Constant(value=1.0)}) for node in parts if node.value not in (0.0, 1.0)
    ]


def is_data(node: ast.AST) -> bool:
    """Whether a node is a list of constants, or of nested lists of constants."""
    if not isinstance(node, (ast.List, ast.Tuple, ast.Set)) or not node.elts:
        return False
    return all(isinstance(each, ast.Constant) or is_data(each) for each in node.elts)


def _number_lists(node: ast.AST) -> Iterator[list[ast.Constant]]:
    """Yield the numbers of each long list of constants."""
    if not is_data(node):
        for child in ast.iter_child_nodes(node):
            yield from _number_lists(child)
        return
    found = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
    if len(found) > _FEW and all(type(each.value) in (int, float) for each in found):
        yield found


def _replace_numbers(nodes: Sequence[ast.Constant], number: int) -> TreeEdit:
    return TreeEdit({node: ast.Constant(value=number) for node in nodes})


def empty_strings(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace strings by empty strings."""
    edits: list[TreeEdit] = []
    inside = {
        value
        for node in ast.walk(program.tree)
        if isinstance(node, ast.JoinedStr)
        for value in node.values
    }
    for node in ast.walk(program.tree):
        match node:
            case ast.JoinedStr():
                edits.append(TreeEdit({node: ast.Constant(value="")}))
            case ast.Constant(value=str(text)) if text and text != "eager" and node not in inside:
                edits.append(TreeEdit({node: ast.Constant(value="")}))
    yield edits


def simplify_tensors(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace tensors by ``torch.ones`` of equal dtype, or by one-element
    tensors.
    """
    simpler: list[TreeEdit] = []
    flat: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch") as torch, attr=name)):
                if name not in _FACTORIES | {"ones"}:
                    continue
                ones = ast.Attribute(value=torch, attr="ones", ctx=ast.Load())
                dtype = _dtype_keyword(name, node, torch)
                others = [each for each in node.keywords if each.arg != "dtype"]
                size = _size_arguments(name, node.args) if name != "ones" else None
                if size is not None:
                    keywords = [*others, *dtype]
                    simpler.append(
                        TreeEdit({node: ast.Call(func=ones, args=size, keywords=keywords)})
                    )
                if _is_large(node):
                    one = ast.Constant(value=1)
                    flat.append(TreeEdit({node: ast.Call(func=ones, args=[one], keywords=dtype)}))
    yield flat
    yield simpler


def _dtype_keyword(name: str, node: ast.Call, torch: ast.Name) -> list[ast.keyword]:
    """Return the ``dtype`` argument with which ``torch.ones`` gives the same dtype as the call
    ``node``.

    ``name`` is the called function, such as "randn". Return [] if no argument is needed.
    """
    given = [keyword for keyword in node.keywords if keyword.arg == "dtype"]
    if given:
        return given
    kind = "int64" if name == "randint" else ""
    if name == "tensor" and node.args:
        kind = _dtype_of_data(node.args[0])
    if not kind:
        return []
    dtype = ast.Attribute(value=torch, attr=kind, ctx=ast.Load())
    return [ast.keyword(arg="dtype", value=dtype)]


def _dtype_of_data(data: ast.expr) -> str:
    """Return "int64" or "bool" for a list of integers or booleans, else ""."""
    found = {type(each.value) for each in ast.walk(data) if isinstance(each, ast.Constant)}
    return "int64" if found == {int} else "bool" if found == {bool} else ""


def _is_large(node: ast.Call) -> bool:
    """Whether a call makes a tensor with more than one element."""
    return len(node.args) + sum(each.arg != "dtype" for each in node.keywords) > 1 or any(
        isinstance(each, ast.List) for each in node.args
    )


def _size_arguments(name: str, args: list[ast.expr]) -> list[ast.expr] | None:
    """Return size arguments with which ``torch.ones`` gives a result of the same size as another
    call.

    ``name`` and ``args`` are the called function and its arguments. Return None if the size is
    unknown.
    """
    if name == "tensor":
        sizes = _list_sizes(args[0]) if args else []
        return [ast.Constant(value=size) for size in sizes] or None
    if name == "randint":
        return args[-1:] if len(args) > 1 else None
    if name == "full":
        return args[:1]
    return list(args)


def _list_sizes(data: ast.expr) -> list[int]:
    """Return the sizes of nested lists of numbers."""
    match data:
        case ast.List(elts=[first, *_]):
            return [len(data.elts), *_list_sizes(first)]
    return []
