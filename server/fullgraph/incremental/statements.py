"""Top-level statements of a module: the names that each binds, mentions and executes.

The analysis is approximate, and finds too many dependencies rather than too few. A name refers to
every statement that binds it. Strings may name definitions. Code called at import may change
everything that it can reach.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental.tokens import Token, tokens_of

Role = Literal["definition", "import", "main", "other"]

_WORD = re.compile(r"[^\W\d]\w*")
_SAID = re.compile(r"#.*\bfullgraph\b(.*)")
"""Pattern of a comment that mentions ``fullgraph``: its text may contain names that the file
defines.
"""
_NAMED = re.compile(r"[\w.\[\], |]{1,100}")
"""Pattern of a string constant that may contain a name of the file, such as an annotation or a
registry key.
"""

_DYNAMIC = frozenset({"globals", "eval", "exec", "__import__"})
_DYNAMIC_ATTRIBUTES = frozenset({"modules", "import_module"})
"""Attributes of ``sys`` and ``importlib`` that give access to names which the code does not
mention.
"""

_PURE = frozenset(
    {
        *("property", "staticmethod", "classmethod", "dataclass", "abstractmethod", "overload"),
        *("contextmanager", "lru_cache", "cache", "cached_property", "wraps", "final", "override"),
        *("torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.compile"),
        *(
            "torch.compiler.disable",
            "torch._dynamo.disable",
            "torch.jit.ignore",
            "torch.jit.script",
        ),
        *("torch.jit.unused", "torch.jit.export", "torch.autograd.function.once_differentiable"),
        *("once_differentiable", "no_grad", "custom_fwd", "custom_bwd", "jaxtyped", "beartype"),
    }
)
"""Decorators that do not store the decorated object in a place such as a registry."""
_PURE_MODULES = ("functools.", "typing.", "dataclasses.", "abc.", "contextlib.")


@dataclass(frozen=True)
class Statement:
    """A top-level statement, with the comments and empty lines above it.

    Statements that share a line count as one. ``lines`` are its lines, numbered from ``first`` to
    ``last`` in the file (from 0).
    """

    first: int
    last: int
    lines: tuple[str, ...]
    nodes: tuple[ast.stmt, ...]

    @cached_property
    def documented(self) -> frozenset[int]:
        """Numbers of the lines that contain only a docstring."""
        found: set[int] = set()
        for node in _docstring_nodes(self.nodes):
            last = (node.end_lineno or node.lineno) - 1
            before = self.lines[node.lineno - 1 - self.first].encode()[: node.col_offset]
            behind = self.lines[last - self.first].encode()[node.end_col_offset :].strip()
            if not before.strip() and (not behind or behind.startswith(b"#")):
                found.update(range(node.lineno - 1, last + 1))
        return frozenset(found)

    @property
    def docstrings(self) -> list[str]:
        """Texts of the statement's docstrings, without layout."""
        texts = (ast.literal_eval(ast.unparse(node)) for node in _docstring_nodes(self.nodes))
        return [_layout_free(text) for text in texts]

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Tokens of the statement, without its docstrings.

        Raises:
            SyntaxError: The tokens cannot be read.
        """
        documented = self.documented
        return tuple(
            token
            for token in tokens_of(self.lines, self.first)
            if token.start.line not in documented or token.text[-1:] not in "\n'\""
        )

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Key of the statement for comparisons with other versions; statements with equivalent code
        have equal keys.
        """
        return tuple(token.key for token in self.tokens if not token.is_optional)

    def executes_as(self, other: Statement) -> bool:
        """Whether two statements with equal keys execute in the same way, apart from docstrings."""
        if [token.text for token in self.tokens] == [token.text for token in other.tokens]:
            return True
        return self._dump == other._dump

    @cached_property
    def _dump(self) -> list[str]:
        return [type(node).__name__ + _describe_fields(node) for node in self.described]

    @cached_property
    def described(self) -> tuple[ast.AST, ...]:
        """AST nodes of the statement except for docstrings, in an order that depends on the code
        alone.
        """
        docstrings = {id(one) for one in _docstring_nodes(self.nodes)}
        found: list[ast.AST] = []
        left: list[ast.AST] = list(reversed(self.nodes))
        while left:
            node = left.pop()
            if id(node) not in docstrings and not isinstance(node, ast.expr_context):
                found.append(node)
                left += reversed(list(ast.iter_child_nodes(node)))
        return tuple(found)

    @cached_property
    def names(self) -> Names:
        return _statement_names(self.lines)


@dataclass(frozen=True)
class Names:
    """The names that a top-level statement binds, mentions and executes, and names in its
    decorators.
    """

    role: Role
    binds: frozenset[str]
    """Module-level names that the statement or its functions may bind."""
    mentions: frozenset[str]
    executed: frozenset[str]
    """Names in code that importing the module may execute."""
    decorated: str
    """Source text of the decorators that may store the decorated object, such as in a registry;
    empty if none.
    """
    decorators: frozenset[str]
    """Names in the decorators that may store the decorated object, not counting the decorators'
    arguments.
    """
    given: frozenset[str]
    """Names in the decorators that may store the decorated object, and in the decorators'
    arguments.
    """


@functools.lru_cache(maxsize=4096)
def _statement_names(lines: tuple[str, ...]) -> Names:
    """Return the names in the statement with these source lines.

    Results are cached, because an edit changes few statements.
    """
    nodes = parse_quietly("\n".join(lines)).body
    roles = {_statement_role(node) for node in nodes}
    said = (word for line in lines for text in _SAID.findall(line) for word in _WORD.findall(text))
    return Names(
        roles.pop() if len(roles) == 1 else "other",
        frozenset(name for node in nodes for name in _bound_names(node)),
        frozenset((*said, *(name for node in nodes for name in _mentioned_names(node)))),
        frozenset(name for node in nodes for name in _executed_names(node)),
        " ".join(ast.unparse(one) for node in nodes for one in _keeping_decorators(node)),
        frozenset(
            name
            for node in nodes
            for one in _keeping_decorators(node)
            for name in _mentioned_names(_decorator_function(one))
        ),
        frozenset(
            name
            for node in nodes
            for one in _keeping_decorators(node)
            for name in _mentioned_names(one)
        ),
    )


def parse_quietly(text: str) -> ast.Module:
    """Parse a text and suppress Python's warnings about its syntax.

    Raises:
        SyntaxError: The text does not parse with this version of Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error


class ParsedText:
    """The top-level statements of a file, or of some of its lines, beginning with line ``first``.

    Raises:
        SyntaxError: The text does not parse with this version of Python.
    """

    def __init__(self, text: str, first: int = 0) -> None:
        self.text = text
        self.lines = tuple(TextPositions(text).lines)
        body = parse_quietly("\n" * first + text).body
        self.statements = tuple(_group_statements(body, self.lines, first))
        self._closures: dict[int, frozenset[int]] = {}

    def statement_at(self, line: int) -> int:
        """Return the index of the top-level statement that contains a line."""
        return next(
            (number for number, one in enumerate(self.statements) if line <= one.last),
            max(len(self.statements) - 1, 0),
        )

    @cached_property
    def definers(self) -> dict[str, tuple[int, ...]]:
        """Indices of the statements that bind a name, by name."""
        found: dict[str, list[int]] = {}
        for number, statement in enumerate(self.statements):
            for name in statement.names.binds:
                found.setdefault(name, []).append(number)
        return {name: tuple(numbers) for name, numbers in found.items()}

    @cached_property
    def imported(self) -> frozenset[str]:
        """Names bound by imports outside of definitions, including conditional imports."""
        outer = (
            node
            for one in self.statements
            for node in one.nodes
            if _statement_role(node) != "definition"
        )
        inner = (node for one in outer for node in ast.walk(one))
        imports = (node for node in inner if isinstance(node, (ast.Import, ast.ImportFrom)))
        return frozenset(name for node in imports for name in _bound_names(node))

    def find_reached(self, names: Iterable[str]) -> frozenset[int]:
        """Return the indices of the top-level statements that ``names`` refer to, directly or
        through names in these statements.
        """
        return self.find_closure(number for name in names for number in self.definers.get(name, ()))

    def find_closure(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the indices ``numbers`` of statements, and the indices of all statements that
        these refer to, directly or through others.
        """
        return frozenset[int]().union(*map(self._statement_closure, set(numbers)))

    def find_users(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the indices of the given statements and of all statements that refer to them,
        directly or through others.
        """
        return frozenset[int]().union(*map(self._users.__getitem__, numbers))

    @cached_property
    def _users(self) -> tuple[frozenset[int], ...]:
        """For each statement, the indices of the statements that refer to it, directly or through
        others.
        """
        users: list[set[int]] = [set() for _ in self.statements]
        for number in range(len(self.statements)):
            for reached in self._statement_closure(number):
                users[reached].add(number)
        return tuple(map(frozenset, users))

    def _statement_closure(self, number: int) -> frozenset[int]:
        known = self._closures.get(number)
        if known is None:
            found: set[int] = set()
            left = [number]
            while left:
                one = left.pop()
                if one in found:
                    continue
                found.add(one)
                mentioned = self.statements[one].names.mentions
                if not _DYNAMIC.isdisjoint(mentioned):
                    found.update(range(len(self.statements)))
                    break
                for name in mentioned:
                    left += self.definers.get(name, ())
            known = self._closures[number] = frozenset(found)
        return known

    @cached_property
    def reached_on_import(self) -> frozenset[int]:
        """Indices of the statements that an import of the module may execute.

        Statements that define objects which the import may modify count, too.
        """
        names: set[str] = set()
        for statement in self.statements:
            if statement.names.role != "main":
                names |= statement.names.executed
            if self.is_kept_here(statement):
                names |= statement.names.binds | statement.names.given
        return self.find_reached(names | self._subclassed)

    def is_kept_here(self, statement: Statement) -> bool:
        """Whether a decorator of this file may store the object that a statement defines, such as
        in a registry.
        """
        numbers = (
            number for name in statement.names.decorators for number in self.definers.get(name, ())
        )
        return any(self.statements[number].names.role != "import" for number in numbers)

    @cached_property
    def _subclassed(self) -> set[str]:
        """Names of classes with ``__init_subclass__`` or a similar hook, and of their
        subclasses.
        """
        hearing: set[str] = set()
        for statement in self.statements:
            for node in statement.nodes:
                if isinstance(node, ast.ClassDef) and (
                    any(keyword.arg == "metaclass" for keyword in node.keywords)
                    or any(getattr(one, "name", "") == "__init_subclass__" for one in node.body)
                ):
                    hearing.add(node.name)
        grew = bool(hearing)
        while grew:
            grew = False
            for statement in self.statements:
                for node in statement.nodes:
                    if not isinstance(node, ast.ClassDef) or node.name in hearing:
                        continue
                    bases = {name for base in node.bases for name in _mentioned_names(base)}
                    if bases & hearing:
                        hearing.add(node.name)
                        grew = True
        return hearing


def _group_statements(
    body: Sequence[ast.stmt], lines: tuple[str, ...], start: int
) -> Iterator[Statement]:
    first = start
    group: list[ast.stmt] = []
    for number, node in enumerate(body):
        group.append(node)
        last = (node.end_lineno or node.lineno) - 1
        follower = body[number + 1] if number + 1 < len(body) else None
        if follower is not None and _first_line(follower) <= last:
            continue
        yield Statement(first, last, lines[first - start : last + 1 - start], tuple(group))
        first, group = last + 1, []
    if first < start + len(lines):
        yield Statement(first, start + len(lines) - 1, lines[first - start :], ())


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(one.lineno for one in decorators)])) - 1


def _docstring_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the docstrings of definitions, including nested ones."""
    left = list(nodes)
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from filter(_is_text, node.body[:1])
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, name, ())


def _layout_free(text: str) -> str:
    return "\n".join(map(str.rstrip, inspect.cleandoc(text).strip().split("\n")))


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _describe_fields(node: ast.AST) -> str:
    """Describe an AST node without its children: the constants in its fields, and the number of its
    children.
    """
    parts = []
    for _, value in ast.iter_fields(node):
        if isinstance(value, list):
            items = [item for item in value if not (isinstance(item, ast.stmt) and _is_text(item))]
            parts.append(str([_describe_value(item) for item in items]))
        else:
            parts.append(_describe_value(value))
    return ",".join(parts)


def _describe_value(value: object) -> str:
    return "*" if isinstance(value, ast.AST) else repr(value)


def _statement_role(node: ast.stmt) -> Role:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return "definition"
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return "import"
    if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
        return "main"
    return "other"


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the module-level names that a node binds; functions and classes bind their own
    names."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global):
                yield from inner.names
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        # A statement that modifies an object also counts as binding the object's name.
        yield from _mentioned_names(node.value)
    for child in ast.iter_child_nodes(node):
        yield from _bound_names(child)


def _mentioned_names(node: ast.AST) -> Iterator[str]:
    docstrings = {id(one) for one in _docstring_nodes([node])}
    left = [node]
    while left:
        one = left.pop()
        if id(one) in docstrings:
            continue
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute) and one.attr in _DYNAMIC_ATTRIBUTES:
            if isinstance(one.value, ast.Name) and one.value.id in ("sys", "importlib"):
                yield "globals"
        elif isinstance(one, ast.Global):
            yield from one.names
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            named = _NAMED.fullmatch(one.value)
            yield from _WORD.findall(one.value) if named else ()
        left += ast.iter_child_nodes(one)


def _executed_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names in code that a statement calls, or passes to other code, when it is
    executed.
    """
    for decorator in _keeping_decorators(node):
        yield from _mentioned_names(
            decorator if _calls_inside(decorator) else _decorator_function(decorator)
        )
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        for default in defaults:
            if _has_calls(default):
                yield from _mentioned_names(default)
    elif isinstance(node, ast.ClassDef):
        for base in (*node.bases, *(keyword.value for keyword in node.keywords)):
            if _has_calls(base):
                yield from _mentioned_names(base)
        for inner in node.body:
            yield from _executed_names(inner)
    elif not isinstance(node, (ast.Import, ast.ImportFrom)) and _has_calls(node):
        yield from _mentioned_names(node)


def _keeping_decorators(node: ast.stmt) -> list[ast.expr]:
    """Return the decorators of a definition that may store the decorated object, such as in a
    registry.
    """
    return [one for one in getattr(node, "decorator_list", ()) if not _is_pure(one)]


def _decorator_function(decorator: ast.expr) -> ast.expr:
    """Return a decorator without its call: ``register`` for ``@register("name")``."""
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _calls_inside(decorator: ast.expr) -> bool:
    """Whether the arguments of a decorator contain a call."""
    return any(_has_calls(child) for child in ast.iter_child_nodes(decorator))


def _has_calls(node: ast.AST) -> bool:
    """Whether executing a node calls code; a definition alone does not call the code in its
    body.
    """
    if isinstance(node, ast.Lambda):
        return False
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return any(True for _ in _executed_names(node))
    calling = (ast.Call, ast.Await, ast.With, ast.For, ast.comprehension, ast.BinOp, ast.Delete)
    if isinstance(node, calling) and not _is_plain(node):
        return True
    return any(_has_calls(child) for child in ast.iter_child_nodes(node))


def _is_plain(node: ast.AST) -> bool:
    """Whether a node is an operation that calls nothing, such as arithmetic, or a union of
    types.
    """
    return isinstance(node, ast.BinOp) and not any(
        isinstance(one, (ast.Call, ast.Await)) for one in ast.walk(node)
    )


def _is_pure(decorator: ast.expr) -> bool:
    name = ast.unparse(_decorator_function(decorator))
    if name.endswith((".setter", ".getter", ".deleter")):
        return True
    return name in _PURE or name.startswith(_PURE_MODULES)
