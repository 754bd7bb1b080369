"""The module-level definitions of a file, from its syntax tree."""

from __future__ import annotations

import ast
import bisect
import functools
import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..protocol import Position, Range
from .comments import first_line

Function = ast.FunctionDef
Read = TypeVar("Read")

# Methods that return the module itself, or do not affect its inputs.
_SAME_MODULE_WORDS = (
    "to cuda cpu half float double bfloat16 eval train requires_grad_ to_empty share_memory "
    "xpu compile"
)
_SAME_MODULE = frozenset(_SAME_MODULE_WORDS.split())


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class FileDefinitions:
    """The classes, functions and assignments at module level of one file.

    Statements under ``if``, ``try`` and ``with`` count as module level. A ``__main__`` block does
    not, since importing the file does not execute it.
    """

    text: str
    tree: ast.Module
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    assignments: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    imported_at: dict[str, ast.alias] = field(default_factory=dict)
    definitions: list[Function | ast.ClassDef] = field(default_factory=list)
    statements: list[ast.stmt] = field(default_factory=list)
    main: list[ast.stmt] = field(default_factory=list)
    """Statements of the file's ``if __name__ == "__main__"`` blocks."""

    @functools.cached_property
    def mentions(self) -> dict[str, frozenset[str]]:
        """Other names of the file that the code of each definition or assignment mentions, by the
        name of the definition or assignment."""
        nodes: dict[str, ast.AST] = dict(self.assignments)
        nodes.update((node.name, node) for node in self.definitions)
        return {
            name: frozenset(
                inner.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name) and inner.id in nodes and inner.id != name
            )
            for name, node in nodes.items()
        }

    def reached_names(self, names: Iterable[str], past: Container[str] = ()) -> set[str]:
        """Return ``names``, and all names that their code mentions, directly or indirectly.

        The code of definitions in ``past`` is not followed.
        """
        seen = set(names)
        waiting = list(seen)
        while waiting:
            name = waiting.pop()
            for further in self.mentions.get(name, ()) if name not in past else ():
                if further not in seen:
                    seen.add(further)
                    waiting.append(further)
        return seen

    def rests_on(self, name: str) -> str:
        """Return a digest of the code of the file that a definition depends on.

        The code is everything that the definition mentions, the module-level statements, and the
        heads of the other definitions.
        """
        reached = self.reached_names([name])
        nodes: list[ast.AST] = []
        for node in self.definitions:
            nodes += [node] if node.name in reached else _definition_heads(node)
        nodes += [one for one in self.statements if not isinstance(one, _DEFINITIONS)]
        return hashlib.sha256("".join(map(ast.dump, nodes)).encode()).hexdigest()

    def full_dotted_name(self, expression: ast.expr) -> str:
        """Return the full dotted name of an expression, resolved through the file's imports; "" if
        it is not a dotted name.

        ``nn.Linear`` is ``torch.nn.Linear`` after ``from torch import nn``.
        """
        root, dot, rest = dotted_name(expression).partition(".")
        return f"{self.imports.get(root, root)}{dot}{rest}"

    def bases(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield the class and its bases, as far as this file defines them, nearest first."""
        seen: set[str] = set()
        waiting = [node]
        while waiting:
            current = waiting.pop(0)
            if current.name in seen:
                continue
            seen.add(current.name)
            yield current
            for base in current.bases:
                name = _subscripted_value(base)
                if isinstance(name, ast.Name) and name.id in self.classes:
                    waiting.append(self.classes[name.id])

    def method(self, node: ast.ClassDef, name: str) -> Function | None:
        """Return a method of a class, its own or inherited within the file; None without one."""
        for current in self.bases(node):
            for statement in current.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == name:
                    return statement
        return None

    def outside_bases(self, node: ast.ClassDef) -> Iterator[str]:
        """Yield the full names of the class's bases defined outside the file."""
        for current in self.bases(node):
            for base in current.bases:
                expression = _subscripted_value(base)
                if isinstance(expression, ast.Name) and expression.id in self.classes:
                    continue
                name = self.full_dotted_name(expression)
                if name:
                    yield name

    def is_module(self, node: ast.ClassDef) -> bool:
        """Whether a class is an ``nn.Module`` judging by the names of its bases, without executing
        it.
        """
        own_forward = self.method(node, "forward") is not None
        for name in self.outside_bases(node):
            last = name.rpartition(".")[2]
            if name.startswith("torch.nn.") or last in _MODULE_BASES or last.endswith("Module"):
                return True
            if last in _OTHER_BASES:
                continue
            if own_forward:
                return True
        return False

    def has_forward(self, node: ast.ClassDef) -> bool:
        """Whether the class has a ``forward`` that does more than raise."""
        forward = self.method(node, "forward")
        if forward is not None:
            return not _is_abstract(forward)
        return any(
            name.startswith("torch.nn.")
            and name != "torch.nn.Module"
            and not name.startswith("torch.nn.modules.module")
            and name.rpartition(".")[2] not in ("ModuleList", "ModuleDict", "ParameterList")
            for name in self.outside_bases(node)
        )

    def without_moves(self, expression: ast.expr) -> ast.expr:
        """Return an expression without calls that return the module itself: ``Net()`` for
        ``Net().to(d).eval()``."""
        while (
            isinstance(expression, ast.Call)
            and isinstance(expression.func, ast.Attribute)
            and expression.func.attr in _SAME_MODULE
            and not self.full_dotted_name(expression.func).startswith("torch.")
        ):
            expression = expression.func.value
        return expression


_MODULE_BASES = frozenset(
    ["Module", "LightningModule", "PreTrainedModel", "ModelMixin", "BaseModule", "MessagePassing"]
)
_OTHER_BASES_WORDS = (
    "object Function ABC Protocol Generic NamedTuple TypedDict Enum IntEnum Exception Dataset "
    "IterableDataset Optimizer Sampler TestCase BenchmarkModel dict list tuple str int"
)
_OTHER_BASES = frozenset(_OTHER_BASES_WORDS.split())


@functools.lru_cache(maxsize=4)
def read_definitions(text: str) -> FileDefinitions:
    """Return the definitions of a file's text.

    Raises:
        SyntaxError: the text does not parse.
    """
    tree = parse_module(text)
    source = FileDefinitions(text, tree)
    _collect_definitions(source, tree.body)
    return source


@functools.lru_cache(maxsize=2)
def parse_module(text: str) -> ast.Module:
    """Return the syntax tree of a text. Equal texts share a tree, so callers must not change it.

    Raises:
        SyntaxError: Python cannot parse the text, for any reason.
    """
    try:
        return ast.parse(text)
    except SyntaxError:
        raise
    except ValueError as error:  # before Python 3.12, null bytes raise ValueError
        raise SyntaxError(str(error)) from None
    except (RecursionError, MemoryError):
        raise SyntaxError("the text is nested too deeply to parse") from None


class PerStatement(Generic[Read]):
    """A cache of facts about a module's statements, which are computed by ``read`` for one
    statement at a time, when needed.

    Callers need the facts of only a few statements of a long file.
    """

    def __init__(self, tree: ast.Module | None, read: Callable[[ast.Module], Read]) -> None:
        self._read = read
        self._first: list[int] = []
        """First zero-based line of each group of statements; a group is one statement, or several
        that share a line."""
        self._parts: list[ast.Module] = []
        self._known: dict[int, Read] = {}
        last = -1
        for node in tree.body if tree is not None else ():
            first = first_line(node)
            if first > last:
                self._first.append(first)
                self._parts.append(ast.Module([], []))
            self._parts[-1].body.append(node)
            last = max(last, (node.end_lineno or node.lineno) - 1)

    def part_at(self, line: int) -> Read:
        """Return the facts about the module-level statement at a zero-based line.

        For a line between two statements, return the facts about the first of them.
        """
        return self._read_part(bisect.bisect_right(self._first, line) - 1)

    def parts_of(self, lines: Iterable[int]) -> Iterator[Read]:
        """Return the facts about the module-level statements at these zero-based lines; about all
        statements if ``lines`` is empty."""
        numbers = {bisect.bisect_right(self._first, line) - 1 for line in lines}
        return map(self._read_part, sorted(numbers) or range(len(self._parts)))

    def _read_part(self, number: int) -> Read:
        if number not in self._known:
            part = self._parts[number] if number >= 0 else ast.Module([], [])
            self._known[number] = self._read(part)
        return self._known[number]


def _collect_definitions(source: FileDefinitions, body: list[ast.stmt]) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if isinstance(node, ast.ClassDef):
                source.classes[node.name] = node
            else:
                source.functions[node.name] = node
            source.definitions.append(node)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                source.imports[bound] = alias.name if alias.asname else bound
                source.imported_at[bound] = alias
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound = alias.asname or alias.name
                source.imports[bound] = f"{node.module or ''}.{alias.name}".lstrip(".")
                source.imported_at[bound] = alias
        elif isinstance(node, ast.If):
            if is_main_guard(node.test):
                if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
                    source.main += node.body
                _collect_definitions(source, node.orelse)
            else:
                _collect_definitions(source, node.body)
                _collect_definitions(source, node.orelse)
            continue
        elif isinstance(node, ast.Try):
            for part in (node.body, *(handler.body for handler in node.handlers)):
                _collect_definitions(source, part)
            _collect_definitions(source, node.orelse)
            _collect_definitions(source, node.finalbody)
            continue
        elif isinstance(node, (ast.With, ast.For, ast.While)):
            _collect_definitions(source, node.body)
            if not isinstance(node, ast.With):
                _collect_definitions(source, node.orelse)
            continue
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    source.assignments[target.id] = node.value
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.value is not None
        ):
            source.assignments[node.target.id] = node.value
        source.statements.append(node)


def is_main_guard(test: ast.expr) -> bool:
    """Whether a condition is ``__name__ == "__main__"`` or ``"__main__" == __name__``."""
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def _subscripted_value(expression: ast.expr) -> ast.expr:
    return expression.value if isinstance(expression, ast.Subscript) else expression


def _is_abstract(function: Function) -> bool:
    """Whether a function does nothing but raise, as methods do that subclasses must implement."""
    for decorator in function.decorator_list:
        name = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
        if name == "abstractmethod" or (isinstance(name, ast.Name) and name.id == "abstractmethod"):
            return True
    for statement in function.body:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Raise):
            raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            if isinstance(raised, ast.Name) and raised.id == "NotImplementedError":
                continue
        return False
    return True


def required_parameters(function: Function) -> list[str]:
    """Return the names of parameters without a default, including ``self``."""
    arguments = function.args
    ordered = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in ordered[: len(ordered) - len(arguments.defaults)]]
    names += [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return names


def dotted_name(expression: ast.expr) -> str:
    """Return a dotted name such as ``self.lib`` as text; empty for other expressions."""
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return ""
    return ".".join([expression.id, *reversed(parts)])


def last_name(expression: ast.expr) -> str:
    """Return the last part of a dotted name: ``compile`` of ``torch.compile``; else empty."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def name_range(node: Function | ast.ClassDef, lines: tuple[bytes, ...]) -> Range:
    """Return the range of the name after ``def`` or ``class``."""
    line = node.lineno - 1
    name = node.name.encode()
    text = lines[line] if line < len(lines) else b""
    keyword = b"class" if isinstance(node, ast.ClassDef) else b"def"
    at = text.find(name, node.col_offset + len(keyword))
    if at < 0:  # the name is on another line, or Python has normalized its characters
        at = node.col_offset
        name = keyword
    return Range(Position(line, at), Position(line, at + len(name)))


def body_range(node: Function | ast.ClassDef) -> Range:
    """Return the source range of a whole function or class, including its decorators."""
    start = Position(node.lineno - 1, node.col_offset)
    for decorator in node.decorator_list:
        # The ``@`` precedes the expression on the same line; only the line matters.
        if decorator.lineno - 1 < start.line:
            start = Position(decorator.lineno - 1, node.col_offset)
    return Range(start, Position((node.end_lineno or node.lineno) - 1, node.end_col_offset or 0))


@functools.lru_cache(maxsize=4)
def byte_lines(text: str) -> tuple[bytes, ...]:
    """Return the lines of a text, encoded in UTF-8 because ``ast`` counts columns in bytes."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return tuple(line.encode() for line in unified.split("\n"))


def _definition_heads(node: Function | ast.ClassDef) -> list[ast.AST]:
    """Return the nodes of a definition that other code depends on: a function's parameters, a
    class's bases and fields."""
    if not isinstance(node, ast.ClassDef):
        return [node.args]
    heads = [
        *node.bases,
        *(one for one in node.body if isinstance(one, (ast.Assign, ast.AnnAssign))),
    ]
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    return [*heads, *(one.args for one in methods if one.name == "__init__")]
