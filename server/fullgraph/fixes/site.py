"""The parsed source code around a finding, for rewrites to read and to change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar, Union

import libcst as cst
import libcst.matchers as m
from libcst.helpers import get_full_name_for_node
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider

from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import Finding, Position, SeenKind, SeenValue

_T = TypeVar("_T")
_Kinds = Union[type, tuple[type, ...]]
Change = Union[cst.CSTNode, cst.RemovalSentinel, cst.FlattenSentinel[Any]]
"""Replacement of a syntax node: one node, several nodes, or a removal."""


class Unparsable(ValueError):
    """Raised if LibCST cannot parse a text."""


class Text:
    """The syntax tree of one text, parsed once for all findings in it.

    ``seen`` are the kinds of values that a trace of the text saw.

    Raises:
        Unparsable: LibCST cannot parse the text.
    """

    def __init__(self, text: str, seen: Sequence[SeenValue] = ()) -> None:
        self.text = text
        self.seen = tuple(seen)
        try:
            parsed = cst.parse_module(text)
        except (cst.ParserSyntaxError, RecursionError) as error:
            raise Unparsable(str(error)) from error
        wrapper = MetadataWrapper(parsed, unsafe_skip_copy=True)
        self.module = wrapper.module
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self._positions = TextPositions(text)
        self._read: dict[Callable[[cst.Module], Any], Any] = {}

    def once(self, read: Callable[[cst.Module], _T]) -> _T:
        """Return the result of ``read`` on the syntax tree, computed once and shared by all
        rewrites."""
        if read not in self._read:
            self._read[read] = read(self.module)
        found: _T = self._read[read]
        return found

    @cached_property
    def _bytes(self) -> bytes:
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def _line_starts(self) -> tuple[int, ...]:
        """Number of bytes of the text before each line."""
        starts = [0]
        for number in range(len(self._positions)):
            chars = self._positions.start(number)
            starts.append(len(self.text[:chars].encode("utf-8", "surrogatepass")))
        return tuple(starts[1:])

    def offset(self, position: Position) -> int:
        """Return the number of bytes of the text before a position."""
        return self._line_starts[min(position.line, len(self._line_starts) - 1)] + position.byte

    def span(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """Return (start, end) of a node in bytes of the text, with an exclusive end; None for a
        node without a known position."""
        span = self._spans.get(node)
        return None if span is None else (span.start, span.start + span.length)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def ancestors(
        self, node: cst.CSTNode, until: cst.CSTNode | None = None
    ) -> Iterator[cst.CSTNode]:
        """Yield the ancestors of a node, from its parent up to the module, or to before
        ``until``."""
        above = self.parent(node)
        while above is not None and above is not until:
            yield above
            above = self.parent(above)

    def top_level(self, node: cst.CSTNode) -> Any:
        """Return the module-level statement that a node is in, or is itself."""
        above = (node, *self.ancestors(node))
        return next(one for one in above if self.parent(one) is self.module)

    def around(self, node: cst.CSTNode, kinds: _Kinds) -> Any:
        """Return the nearest ancestor of a node with one of the given classes; None without one."""
        return next((one for one in self.ancestors(node) if isinstance(one, kinds)), None)

    def smallest(self, kinds: _Kinds, start: int, end: int) -> Any:
        """Return the smallest node of the given classes that covers the bytes from ``start`` to
        ``end``; None without one."""
        best: tuple[int, cst.CSTNode] | None = None
        for node, span in self._spans.items():
            covers = span.start <= start and end <= span.start + span.length
            if covers and isinstance(node, kinds) and (best is None or span.length <= best[0]):
                best = span.length, node
        return best[1] if best is not None else None

    def kind_of_local(self, function: cst.FunctionDef, name: str) -> SeenKind | None:
        """Return the kind of value (such as a tensor) that a parameter or local variable of a
        function had in the trace; None if unknown, or if it had several kinds."""
        kinds = self.locals_seen(function).get(name, ())
        return kinds[0] if len(kinds) == 1 else None

    def locals_seen(self, function: cst.FunctionDef) -> dict[str, tuple[SeenKind, ...]]:
        """Return the kinds of values that each parameter and local variable of a function had in
        the trace, by name."""
        span = self.span(function.name)
        return self._locals_by_function.get(span[0], {}) if span is not None else {}

    def is_traced(self, function: cst.FunctionDef) -> bool | None:
        """Whether Dynamo traced a function; None if unknown."""
        if self.locals_seen(function):
            return True
        has_parameters = m.matches(function.params, m.Parameters(params=[m.AtLeastN(n=1)]))
        return False if self.seen and has_parameters else None

    @cached_property
    def _locals_by_function(self) -> dict[int, dict[str, tuple[SeenKind, ...]]]:
        """Kinds of values of local variables, by the offset of the function's name in bytes and the
        name of the variable."""
        found: dict[int, dict[str, tuple[SeenKind, ...]]] = {}
        for value in self.seen:
            if value.name:
                of_function = found.setdefault(self.offset(value.range.start), {})
                kinds = (*of_function.get(value.name, ()), value.kind)
                of_function[value.name] = tuple(dict.fromkeys(kinds))
        return found

    def within(self, kinds: _Kinds, start: int, end: int) -> list[Any]:
        """Return the nodes of the given classes that lie completely between the bytes ``start`` and
        ``end``, in the order of the text."""
        found = [
            (span.start, node)
            for node, span in self._spans.items()
            if isinstance(node, kinds) and start <= span.start and span.start + span.length <= end
        ]
        return [node for _, node in sorted(found, key=lambda one: one[0])]


class Site:
    """The parsed source code around a finding, with the syntax node at the finding."""

    def __init__(self, text: Text, finding: Finding) -> None:
        self.text = text
        self.module = text.module
        self.finding = finding
        self._start = text.offset(finding.range.start)
        self._end = text.offset(finding.range.end)

    @cached_property
    def expression(self) -> cst.BaseExpression | None:
        """The smallest expression that covers the range of the finding; None without one."""
        found: cst.BaseExpression | None
        found = self.text.smallest(cst.BaseExpression, self._start, self._end)
        return found

    @cached_property
    def statement(self) -> cst.SimpleStatementLine | cst.BaseCompoundStatement | None:
        """The smallest statement that covers the range of the finding; None without one."""
        found: cst.SimpleStatementLine | cst.BaseCompoundStatement | None
        found = self.text.smallest(cst.BaseStatement, self._start, self._end)
        return found

    @cached_property
    def function(self) -> cst.FunctionDef | cst.Lambda | None:
        """The nearest function around the finding; None at the top level of the module or of a
        class."""
        found: cst.FunctionDef | cst.Lambda | None
        found = self.enclosing((cst.FunctionDef, cst.Lambda))
        return found

    def enclosing(self, kinds: _Kinds) -> Any:
        """Return the nearest node of the given classes around the finding; None without one."""
        here = self.expression or self.statement
        if here is None or isinstance(here, kinds):
            return here
        return self.text.around(here, kinds)

    @property
    def constructors(self) -> list[cst.FunctionDef]:
        """The ``__init__`` methods of the class around the finding, and of the classes nested in
        it."""
        of_class = self.enclosing(cst.ClassDef)
        found = m.findall(of_class, m.FunctionDef(m.Name("__init__"))) if of_class else ()
        return [one for one in found if isinstance(one, cst.FunctionDef)]

    def code(self, node: cst.CSTNode) -> str:
        """Return the source code of a node, without surrounding whitespace."""
        return self.module.code_for_node(node)

    def one_line(self, node: cst.CSTNode) -> str:
        """Return the source code of a node as one line, with single spaces."""
        return " ".join(self.code(node).split())

    def imports(self, name: str) -> bool:
        """Whether the module has the statement ``import name`` at its top level; for
        ``module:name``, the statement ``from module import name``."""
        return _has_import(self.module, name)

    def replaced(
        self,
        changes: Sequence[tuple[cst.CSTNode, Change]],
        *,
        imports: Sequence[str] = (),
    ) -> str:
        """Return the text with nodes replaced or removed, and with ``import`` statements for
        missing modules of ``imports``. ``module:name`` imports a name from a module.

        The nodes of ``changes`` must not contain each other.
        """
        module = self._rebuild(changes)
        for name in imports:
            if not _has_import(module, name):
                module = _add_import(module, name)
        return module.code

    def _rebuild(self, pairs: Sequence[tuple[cst.CSTNode, Change]]) -> cst.Module:
        """Return the module with the first node of each pair replaced by the second.

        Only the ancestors of the nodes are rebuilt. Visiting the whole module would take a second
        per 1000 lines.
        """
        changes = {id(old): change for old, change in pairs}
        around = {id(above) for old, _ in pairs for above in self.text.ancestors(old)}

        def new(node: object) -> Any:
            if id(node) in changes:
                return changes[id(node)]
            if isinstance(node, cst.CSTNode) and id(node) in around:
                fields = {one.name: getattr(node, one.name) for one in dataclasses.fields(node)}
                return node.with_changes(**{name: part(value) for name, value in fields.items()})
            return node

        def part(value: object) -> Any:
            if not isinstance(value, (list, tuple)):
                changed = new(value)
                return None if isinstance(changed, cst.RemovalSentinel) else changed
            parts: list[Any] = []
            for one in value:
                changed = new(one)
                if isinstance(changed, cst.FlattenSentinel):
                    parts += changed
                elif not isinstance(changed, cst.RemovalSentinel):
                    parts.append(changed)
            return parts

        module = new(self.module)
        assert isinstance(module, cst.Module)
        return module


def _has_import(module: cst.Module, name: str) -> bool:
    """Whether a module has the statement ``import name`` at its top level; for ``module:name``,
    the statement ``from module import name``."""
    lines = (line for line in module.body if isinstance(line, cst.SimpleStatementLine))
    return any(name in _imported_names(small) for line in lines for small in line.body)


def _imported_names(statement: cst.BaseSmallStatement) -> Iterator[str]:
    """Yield what an absolute import statement imports without a new name: ``module``, or
    ``module:name`` for ``from module import name``."""
    if isinstance(statement, cst.Import):
        source, aliases = "", statement.names
    elif isinstance(statement, cst.ImportFrom) and statement.module and not statement.relative:
        if isinstance(statement.names, cst.ImportStar):
            return
        source, aliases = f"{get_full_name_for_node(statement.module)}:", statement.names
    else:
        return
    for alias in aliases:
        if alias.asname is None:
            yield f"{source}{alias.evaluated_name}"


def _add_import(module: cst.Module, name: str) -> cst.Module:
    """Add the statement ``import name`` after the first imports of a module; for ``module:name``,
    the statement ``from module import name``.

    The visitor of LibCST for this purpose reads the whole module and is slow.
    """
    statements = list(module.body)
    place = 1 if module.get_docstring() is not None else 0
    while place < len(statements) and _is_import(statements[place]):
        place += 1
    source, _, attribute = name.rpartition(":")
    code = f"from {source} import {attribute}" if source else f"import {name}"
    statement = cst.parse_statement(code, config=module.config_for_parsing)
    rest = statements[place:]
    if rest and not _begins_with_blank_line(rest[0]):
        rest[0] = rest[0].with_changes(leading_lines=[cst.EmptyLine(), *rest[0].leading_lines])
    return module.with_changes(body=[*statements[:place], statement, *rest])


def _is_import(statement: cst.BaseStatement) -> bool:
    return m.matches(statement, m.SimpleStatementLine([m.Import() | m.ImportFrom()]))


def _begins_with_blank_line(
    statement: cst.SimpleStatementLine | cst.BaseCompoundStatement,
) -> bool:
    lines = statement.leading_lines
    return bool(lines) and lines[0].comment is None


class Transforming(cst.CSTTransformer):
    """A transformer that replaces nodes by the results of a function, whose arguments are a node
    and the same node with its children transformed."""

    def __init__(self, change: Callable[[cst.CSTNode, cst.CSTNode], cst.CSTNode]) -> None:
        super().__init__()
        self._change = change

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        return self._change(original_node, updated_node)


class Replacing(cst.CSTTransformer):
    """A transformer that replaces given nodes by other nodes in a part of a module."""

    def __init__(self, changes: Sequence[tuple[cst.CSTNode, Change]]) -> None:
        super().__init__()
        self._changes = {id(old): new for old, new in changes}

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        return self._changes.get(id(original_node), super().on_leave(original_node, updated_node))
