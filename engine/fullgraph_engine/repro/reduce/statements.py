"""Statements that can go: what nothing uses, what is only said of the code, then any."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import Edit, Replacement
from .places import DEFINITIONS, FUNCTIONS, Places, by_depth
from .program import Program

_CALLED_BY_OTHERS = frozenset({"forward", "setup", "setup_context", "backward"})


def idle(program: Program) -> Iterator[Sequence[Edit]]:
    """What nothing mentions, docstrings, annotations and asserts, all together; decorators."""
    yield [*(Edit({node: None}) for node in _unreachable(program.tree)), *_said(program.tree)]
    yield [
        Edit({decorator: None})
        for node in ast.walk(program.tree)
        if isinstance(node, DEFINITIONS)
        for decorator in node.decorator_list
    ]


def _said(tree: ast.Module) -> Iterator[Edit]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert():
                yield Edit({node: None})
            case ast.arg(annotation=ast.expr() as annotation):
                yield Edit({annotation: None})
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield Edit({annotation: None})
            case ast.AnnAssign(value=ast.expr()):
                yield Edit({node.annotation: None})


def _unreachable(tree: ast.Module) -> Iterator[ast.AST]:
    """What is left out when one starts from the statements that are executed for their effect."""
    given: dict[str, list[ast.AST]] = {}
    waiting: list[ast.AST] = []
    candidates: list[ast.AST] = []
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                given.setdefault(statement.name, []).append(statement)
                candidates.append(statement)
            case ast.ClassDef():
                given.setdefault(statement.name, []).append(statement)
                candidates.append(statement)
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    given.setdefault(name, []).append(alias)
                    candidates.append(alias)
            case ast.Assign(targets=[ast.Name(id=name)]) if not _calls(statement.value):
                given.setdefault(name, []).append(statement)
                candidates.append(statement)
            case _:
                waiting.append(statement)
    reached: set[ast.AST] = set()
    said: set[str] = set()
    methods: dict[str, list[ast.AST]] = {}
    while waiting:
        node = waiting.pop()
        if node in reached:
            continue
        reached.add(node)
        inner: list[ast.AST] = [node]
        while inner:
            part = inner.pop()
            words: list[str] = []
            match part:
                case ast.Name():
                    words.append(part.id)
                case ast.Attribute():
                    words.append(part.attr)
                case ast.Constant(value=str(text)) if text.isidentifier():
                    words.append(text)
            for word in words:
                if word not in said:
                    said.add(word)
                    waiting.extend(given.get(word, ()))
                    waiting.extend(methods.get(word, ()))
            for child in ast.iter_child_nodes(part):
                if (
                    isinstance(part, ast.ClassDef)
                    and isinstance(child, FUNCTIONS)
                    and not child.name.startswith("__")
                    and child.name not in _CALLED_BY_OTHERS
                    and child.name not in said
                ):
                    methods.setdefault(child.name, []).append(child)
                    candidates.append(child)
                else:
                    inner.append(child)
    for candidate in candidates:
        if candidate not in reached:
            yield candidate


def _calls(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(value))


def dropped(program: Program) -> Iterator[Sequence[Edit]]:
    """Any statement, from the outer ones in and from the last to the first.

    What reads a variable that is no longer bound gets what it was made from.
    """
    places = Places.of(program.tree)
    for level in by_depth(program.tree):
        last_first = level[::-1]
        last_first.sort(key=lambda block: _turn(block, places))
        for block in last_first:
            edits = [_without(statement, places) for statement in reversed(block)]
            yield [edit for edit in edits if edit is not None]


def _turn(block: list[ast.stmt], places: Places) -> int:
    """Methods come first: what makes inputs can go only when they are no longer needed."""
    around = places.scopes[block[0]]
    if places.around(block[0]) is None:
        return 1
    return 2 if isinstance(around, FUNCTIONS) and around.name == "__init__" else 0


def _without(statement: ast.stmt, places: Places) -> Edit | None:
    if isinstance(statement, ast.Pass):
        return None
    changes: dict[ast.AST, Replacement] = {statement: None}
    match statement:
        case ast.Assign(targets=[ast.Name() as target]) if not places.bound_before(target):
            source = places.value_in(statement.value)
            if source is not None and source.id != target.id:
                for use in places.reached(target):
                    changes[use] = source
        case ast.Assign(targets=[ast.Tuple() as several]):
            source = places.value_in(statement.value)
            for part in several.elts:
                if (
                    source is not None
                    and isinstance(part, ast.Name)
                    and not places.bound_before(part)
                ):
                    changes.update(dict.fromkeys(places.reached(part), source))
    return Edit(changes)


def bypassed(program: Program) -> Iterator[Sequence[Edit]]:
    """Assignments whose readers get what the value was made from, also where the name is old."""
    places = Places.of(program.tree)
    edits: list[Edit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Assign(targets=[ast.Name() as target]):
                source = places.value_in(node.value)
                uses = places.reached(target)
                if source is not None and source.id != target.id and uses:
                    edits.append(Edit({node: None, **dict.fromkeys(uses, source)}))
    yield edits[::-1]


def submodules(program: Program) -> Iterator[Sequence[Edit]]:
    """An attribute that is only called: the assignment goes, each call becomes its argument."""
    stored: dict[str, list[ast.Assign]] = {}
    read: dict[str, list[ast.AST]] = {}
    calls: dict[ast.AST, ast.Call] = {}
    for node in ast.walk(program.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[_, *_]):
                calls[node.func] = node
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                stored.setdefault(name, []).append(node)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                read.setdefault(name, []).append(node)
    edits: list[Edit] = []
    for name, assignments in stored.items():
        changes: dict[ast.AST, Replacement] = dict.fromkeys(assignments)
        for use in read.get(name, ()):
            call = calls.get(use)
            if call is None or isinstance(call.args[0], ast.Starred):
                break
            changes[call] = call.args[0]
        else:
            edits.append(Edit(changes))
    yield edits[::-1]
