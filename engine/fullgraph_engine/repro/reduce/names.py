"""A final pass of the reducer that shortens names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from .callees import Callees
from .edits import Replacement, TreeEdit
from .program import ParsedProgram
from .syntax_index import FUNCTIONS

_FUNCTIONS = ("f", "g", "h", "f2", "g2", "h2")
_CLASSES = ("C", "D", "E", "C2", "D2", "E2")
_VARIABLES = ("x", "y", "z", "a", "b", "c", "d", "u", "v", "w")
_KEPT = frozenset({"self", "cls", "ctx", "forward", "backward", "setup_context", "_"})


def shorten_names(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that rename the program's own variables, functions and classes to short names.

    The first group renames all together; then each is renamed alone.
    """
    tree = program.tree
    index = program.index
    callees = Callees(index)
    own: dict[str, tuple[str, ...]] = {}
    reserved: set[str] = set(dir(builtins))
    sites: dict[str, list[ast.AST]] = {}
    attributes: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                own.setdefault(name, _CLASSES)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                own.setdefault(name, _FUNCTIONS)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                own.setdefault(name, _VARIABLES)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                own.setdefault(name, _VARIABLES)
                attributes.add(name)
            case ast.alias(name=name):
                reserved.add(node.asname or name.partition(".")[0])
            case ast.Constant(value=str(text)):
                reserved.add(text)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                reserved.update(names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                reserved.add(name)
    methods = {
        inner.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, FUNCTIONS)
    }
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                sites.setdefault(node.name, []).append(node)
            case ast.arg(arg=name):
                sites.setdefault(name, []).append(node)
            case ast.Name(id=name):
                sites.setdefault(name, []).append(node)
            case ast.Attribute(attr=name) if name in attributes | methods:
                sites.setdefault(name, []).append(node)
            case ast.Call():
                if callees.function_called_by(node) is not None:
                    for keyword in node.keywords:
                        if keyword.arg is not None:
                            sites.setdefault(keyword.arg, []).append(keyword)
    taken = reserved | set(own) | set(sites)
    edits: list[TreeEdit] = []
    for name, choices in own.items():
        if name in reserved or name in _KEPT or name in choices or name.startswith("__"):
            continue
        new = next((choice for choice in choices if choice not in taken), None)
        if new is None:
            continue
        taken.add(new)
        changes: dict[ast.AST, Replacement] = {
            node: _rename_node(node, new) for node in sites.get(name, ())
        }
        edits.append(TreeEdit(changes))
    yield edits


def name_order(program: ParsedProgram) -> tuple[int, int, int]:
    """Return a sort key of a program; it is smaller if the program's names are shorter and
    simpler.
    """
    own: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(program.tree):
        match node:
            case ast.ClassDef(name=name):
                own[name] = _CLASSES
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                own[name] = _FUNCTIONS
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                own[name] = _VARIABLES
            case ast.Attribute(attr=name, ctx=ast.Store()):
                own[name] = _VARIABLES
    odd = sum(1 for name, choices in own.items() if name not in choices)
    return program.size.lines, program.size.nodes, odd


def _rename_node(node: ast.AST, new: str) -> ast.AST:
    fields = dict(ast.iter_fields(node))
    match node:
        case ast.arg() | ast.keyword():
            fields["arg"] = new
        case ast.Name():
            fields["id"] = new
        case ast.Attribute():
            fields["attr"] = new
        case _:
            fields["name"] = new
    return type(node)(**fields)
