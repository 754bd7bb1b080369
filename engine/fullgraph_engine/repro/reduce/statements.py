"""Passes of the reducer that remove statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import Replacement, TreeEdit
from .program import ParsedProgram
from .syntax_index import DEFINITIONS, FUNCTIONS, SyntaxIndex, blocks_by_depth

_CALLED_BY_OTHERS = frozenset({"forward", "setup", "setup_context", "backward"})


def drop_idle(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that remove unused definitions, docstrings, annotations, asserts, and
    decorators.
    """
    yield [
        *(TreeEdit({node: None}) for node in _unreachable_nodes(program.tree)),
        *_text_edits(program.tree),
    ]
    yield [
        TreeEdit({decorator: None})
        for node in ast.walk(program.tree)
        if isinstance(node, DEFINITIONS)
        for decorator in node.decorator_list
    ]


def _text_edits(tree: ast.Module) -> Iterator[TreeEdit]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert():
                yield TreeEdit({node: None})
            case ast.arg(annotation=ast.expr() as annotation):
                yield TreeEdit({annotation: None})
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield TreeEdit({annotation: None})
            case ast.AnnAssign(value=ast.expr()):
                yield TreeEdit({node.annotation: None})


def _unreachable_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield definitions that no statement with an effect uses, directly or indirectly."""
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
            case ast.Assign(targets=[ast.Name(id=name)]) if not _contains_call(statement.value):
                given.setdefault(name, []).append(statement)
                candidates.append(statement)
            case _:
                waiting.append(statement)
    reached: set[ast.AST] = set()
    mentioned: set[str] = set()
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
                if word not in mentioned:
                    mentioned.add(word)
                    waiting.extend(given.get(word, ()))
                    waiting.extend(methods.get(word, ()))
            for child in ast.iter_child_nodes(part):
                if (
                    isinstance(part, ast.ClassDef)
                    and isinstance(child, FUNCTIONS)
                    and not child.name.startswith("__")
                    and child.name not in _CALLED_BY_OTHERS
                    and child.name not in mentioned
                ):
                    methods.setdefault(child.name, []).append(child)
                    candidates.append(child)
                else:
                    inner.append(child)
    for candidate in candidates:
        if candidate not in reached:
            yield candidate


def _contains_call(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(value))


def drop_statements(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that remove statements, outer blocks first and last statements first.

    Reads of a removed variable are replaced by the variable that its value was computed from.
    """
    index = program.index
    for level in blocks_by_depth(program.tree):
        last_first = level[::-1]
        last_first.sort(key=lambda block: _block_priority(block, index))
        for block in last_first:
            edits = [_removal_edit(statement, index) for statement in reversed(block)]
            yield [edit for edit in edits if edit is not None]


def _block_priority(block: list[ast.stmt], index: SyntaxIndex) -> int:
    """Return a sort key for a block: 0 in a class, 1 outside of classes, 2 in a constructor."""
    around = index.scopes[block[0]]
    if index.enclosing_class(block[0]) is None:
        return 1
    return 2 if isinstance(around, FUNCTIONS) and around.name == "__init__" else 0


def _removal_edit(statement: ast.stmt, index: SyntaxIndex) -> TreeEdit | None:
    if isinstance(statement, ast.Pass):
        return None
    changes: dict[ast.AST, Replacement] = {statement: None}
    match statement:
        case ast.Assign(targets=[ast.Name() as target]) if not index.bound_before(target):
            source = index.value_in(statement.value)
            if source is not None and source.id != target.id:
                for use in index.reads_of_binding(target):
                    changes[use] = source
        case ast.Assign(targets=[ast.Tuple() as several]):
            source = index.value_in(statement.value)
            for part in several.elts:
                if (
                    source is not None
                    and isinstance(part, ast.Name)
                    and not index.bound_before(part)
                ):
                    changes.update(dict.fromkeys(index.reads_of_binding(part), source))
    return TreeEdit(changes)


def bypass_assignments(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace variables by the variable that their value was computed from."""
    index = program.index
    edits: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Assign(targets=[ast.Name() as target]):
                source = index.value_in(node.value)
                uses = index.reads_of_binding(target)
                if source is not None and source.id != target.id and uses:
                    edits.append(TreeEdit({node: None, **dict.fromkeys(uses, source)}))
    yield edits[::-1]


def bypass_submodules(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace calls like ``self.norm(x)`` by ``x``.

    The assignment of ``self.norm`` is removed.
    """
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
    edits: list[TreeEdit] = []
    for name, assignments in stored.items():
        changes: dict[ast.AST, Replacement] = dict.fromkeys(assignments)
        for use in read.get(name, ()):
            call = calls.get(use)
            if call is None or isinstance(call.args[0], ast.Starred):
                break
            changes[call] = call.args[0]
        else:
            edits.append(TreeEdit(changes))
    yield edits[::-1]
