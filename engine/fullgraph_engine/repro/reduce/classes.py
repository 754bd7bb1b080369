"""Passes of the reducer that simplify classes and turn them into functions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from .callees import method_of
from .edits import Replacement, TreeEdit
from .program import ParsedProgram
from .syntax_index import FUNCTIONS, Function, SyntaxIndex

_CALLED = ("forward", "__call__")


def drop_bases(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that remove base classes and keywords of classes, and their
    ``super().__init__``.
    """
    edits: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ClassDef):
            calls = [inner for inner in ast.walk(node) if _starts_base(inner)]
            for base in (*node.bases, *node.keywords):
                edits.append(TreeEdit({base: None, **dict.fromkeys(calls)}))
    yield edits


def merge_twins(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace a class by another class that differs only in constants."""
    edits: list[TreeEdit] = []
    known: dict[str, ast.ClassDef] = {}
    for node in program.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        first = known.setdefault(_class_shape(node), node)
        if first is not node:
            uses = [
                use
                for use in ast.walk(program.tree)
                if isinstance(use, ast.Name) and use.id == node.name
            ]
            edits.append(
                TreeEdit(
                    {node: None, **{use: ast.Name(id=first.name, ctx=use.ctx) for use in uses}}
                )
            )
    yield edits


def _class_shape(owner: ast.ClassDef) -> str:
    """Return a text that represents a class without its name and constants."""
    plain = _WithoutConstants().visit(copy.deepcopy(owner))
    plain.name = ""
    return ast.dump(plain)


class _WithoutConstants(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(value=None)


def inline_attributes(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace an attribute by its value, if it is assigned once and the value is
    a constant or global.
    """
    index = program.index
    stored: dict[str, list[ast.Assign]] = {}
    read: dict[str, list[ast.AST]] = {}
    written: dict[str, int] = {}
    for node in ast.walk(program.tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                stored.setdefault(name, []).append(node)
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                read.setdefault(node.attr, []).append(node)
            else:
                written[node.attr] = written.get(node.attr, 0) + 1
    edits: list[TreeEdit] = []
    for name, assignments in stored.items():
        if len(assignments) != 1 or written[name] != 1 or not read.get(name):
            continue
        value = assignments[0].value
        simple = isinstance(value, (ast.Constant, ast.Name))
        if (simple or len(read[name]) == 1) and _is_global(value, index):
            edits.append(TreeEdit({assignments[0]: None, **dict.fromkeys(read[name], value)}))
    yield edits


def replace_by_attribute(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace an instance by the value of one of its attributes."""
    index = program.index
    classes = {node.name: node for node in program.tree.body if isinstance(node, ast.ClassDef)}
    uses = [node for node in ast.walk(program.tree) if isinstance(node, ast.Name)]
    for node in ast.walk(program.tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in classes:
                owner = classes[name]
                only = sum(use.id == name for use in uses) == 1
                removed: dict[ast.AST, Replacement] = {owner: None} if only else {}
                for value in _attribute_values(owner):
                    if _is_global(value, index):
                        yield (TreeEdit({node: value, **removed}),)


def _attribute_values(owner: ast.ClassDef) -> Iterator[ast.expr]:
    """Yield the values that the constructor of a class assigns to attributes."""
    start = method_of(owner, "__init__")
    for statement in start.body if start is not None else ():
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=value):
                yield value


def classes_to_functions(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that turn a class with one method into a function, its attributes into
    globals.
    """
    index = program.index
    for node in program.tree.body:
        if isinstance(node, ast.ClassDef):
            for edit in _dissolve_class(node, index):
                yield (edit,)


def _dissolve_class(owner: ast.ClassDef, index: SyntaxIndex) -> Iterator[TreeEdit]:
    start = method_of(owner, "__init__")
    methods = [
        member for member in owner.body if isinstance(member, FUNCTIONS) and member is not start
    ]
    if len(methods) != 1 or (start is not None and len(start.args.args) != 1):
        return
    method = methods[0]
    constants = [member for member in owner.body if member is not start and member is not method]
    if any(not isinstance(member, (ast.Assign, ast.Pass)) for member in constants):
        return
    changes: dict[ast.AST, Replacement] = {}
    static = any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in method.decorator_list
    )
    if not static:
        if not method.args.args:
            return
        changes[method.args.args[0]] = None
    state = _attributes_as_variables(owner, start, method, index)
    if state is None:
        return
    changes.update(state)
    before: list[ast.stmt] = [member for member in constants if not isinstance(member, ast.Pass)]
    if start is not None:
        before.extend(
            member for member in start.body if not _starts_base(_expression_value(member))
        )
    function = type(method)(**{**dict(ast.iter_fields(method)), "decorator_list": []})
    function.name = (
        method.name if method.name not in _CALLED else _lowercase_name(owner.name, index)
    )
    changes[owner] = (*before, function)
    for use in ast.walk(index.tree):
        match use:
            case ast.Call(func=ast.Name(id=name), args=[]) if name == owner.name:
                changes[use] = ast.Name(id=function.name, ctx=ast.Load())
            case ast.Attribute(attr=name) if name == method.name and name not in _CALLED:
                changes[use] = ast.Name(id=function.name, ctx=ast.Load())
            case ast.Attribute(attr=name, value=ast.Call(func=ast.Name(id=called))) if (
                name == method.name and called == owner.name
            ):
                changes[use] = ast.Name(id=function.name, ctx=ast.Load())
    yield TreeEdit(changes)


def _attributes_as_variables(
    owner: ast.ClassDef, start: Function | None, method: Function, index: SyntaxIndex
) -> dict[ast.AST, Replacement] | None:
    """Return replacements that turn the attributes of ``self`` into variables.

    ``start`` is the constructor of the class ``owner``, and ``method`` its only other method. The
    result is None if ``self`` is used in other ways.
    """
    changes: dict[ast.AST, Replacement] = {}
    own = {
        node.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    } | {
        target.id
        for member in owner.body
        if isinstance(member, ast.Assign)
        for target in member.targets
        if isinstance(target, ast.Name)
    }
    locals_ = index.names_in(method) | (index.names_in(start) if start is not None else set())
    taken = locals_ | index.names_in(index.tree) | set(index.defined) | index.imported
    globals_: set[str] = set()
    for node in ast.walk(owner):
        if not (isinstance(node, ast.Name) and node.id == "self"):
            continue
        parent = index.parents[node]
        if not isinstance(parent, ast.Attribute) or parent.attr not in own:
            return None
        name = parent.attr
        while name in taken:
            name += "_"
        if isinstance(parent.ctx, ast.Store) and index.scopes[parent] is method:
            globals_.add(name)
        changes[parent] = ast.Name(id=name, ctx=parent.ctx)
    for member in owner.body:
        if isinstance(member, ast.Assign):
            for target in member.targets:
                if isinstance(target, ast.Name) and target.id in taken - {target.id}:
                    return None
    if globals_:
        first = method.body[0]
        changes[first] = (ast.Global(names=sorted(globals_)), first)
    return changes


def _lowercase_name(name: str, index: SyntaxIndex) -> str:
    new = name.lower()
    while new in index.names_in(index.tree) | set(index.defined) | index.imported:
        new += "_"
    return new


def _starts_base(node: ast.AST | None) -> bool:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")
        ):
            return True
    return False


def _expression_value(statement: ast.stmt) -> ast.AST | None:
    return statement.value if isinstance(statement, ast.Expr) else None


def _is_global(value: ast.expr, index: SyntaxIndex) -> bool:
    return all(
        index.home_scope(node) is index.tree and node.id != "self"
        for node in ast.walk(value)
        if isinstance(node, ast.Name)
    )
