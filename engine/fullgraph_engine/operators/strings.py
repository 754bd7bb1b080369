"""Find the calls in a file that define operators, and the source range of each character in their
strings.

Finds calls of ``torch.library.define``, ``Library.define``, ``custom_op`` and ``triton_op``, also
if the file imports these functions under other names. The file is not executed, so a schema that is
computed at run time is not found.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as Choice

from ..protocol import Position, Range, node_range
from ..targets.source import byte_lines, dotted_name

DefinitionApi = Choice["define", "Library.define", "custom_op", "triton_op"]

_APIS: dict[str, DefinitionApi] = {
    "torch.library.define": "define",
    "torch.library.custom_op": "custom_op",
    "torch._library.custom_ops.custom_op": "custom_op",
    "torch._library.custom_op": "custom_op",
    "torch.library.triton_op": "triton_op",
    "torch._library.triton.triton_op": "triton_op",
    "torch._library.triton_op": "triton_op",
}
_LIBRARY_CLASSES = ("torch.library.Library", "torch.library._scoped_library")


# -- strings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocatedString:
    """The value of a constant string, with the source range of each of its characters."""

    value: str
    places: tuple[Range, ...]
    """Source range of each character of ``value``."""
    span: Range
    """Range from the first opening quote to the last closing quote."""
    end: Range
    """Range of the last closing quote."""

    def range_between(self, start: int, stop: int) -> Range:
        """Return the source range of the characters of ``value`` from ``start`` to before ``stop``.

        The range has at least one character. At the end of the value, it is the closing quote.
        """
        if start >= len(self.value):
            return self.end
        last = min(max(stop, start + 1), len(self.value)) - 1
        return Range(self.places[start].start, self.places[last].end)


_LITERAL = re.compile(
    r"""\#[^\n]*
      | (?P<prefix>[rRuU]?) (?P<quote>\'{3}|"{3}|'|") (?P<body>(?:\\.|(?!(?P=quote)).)*) (?P=quote)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Pattern of a comment or a string literal."""
_PIECE = re.compile(
    r"""\\(?:\n|N\{[^}]*\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{1,3}
      |[\\'"abfnrtv])|.""",
    re.VERBOSE | re.DOTALL,
)
"""Pattern of an escape sequence, or of any other character."""


def locate_string(node: ast.expr, lines: Sequence[bytes]) -> LocatedString | None:
    """Evaluate a constant string, or a sum of constant strings, with the source range of each
    character.

    ``lines`` are the lines of the file. Returns None for other expressions.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = locate_string(node.left, lines), locate_string(node.right, lines)
        if left is None or right is None:
            return None
        return LocatedString(
            left.value + right.value, left.places + right.places, node_range(node), right.end
        )
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    span = node_range(node)
    text, positions = _source_characters(span, lines)
    places: list[Range] = []
    end, value = span, ""
    for literal in _LITERAL.finditer(text):
        if literal["quote"] is None:
            continue  # the match is a comment between two literals
        is_raw = literal["prefix"] in ("r", "R")
        at = literal.start("body")
        for piece in literal["body"] if is_raw else _PIECE.findall(literal["body"]):
            character = piece if len(piece) == 1 else str(ast.literal_eval(f"'''{piece}'''"))
            places += [Range(positions[at], positions[at + len(piece)])] * len(character)
            value += character
            at += len(piece)
        end = Range(positions[at], positions[literal.end()])
    if value != node.value:
        return LocatedString(node.value, (span,) * len(node.value), span, span)
    return LocatedString(value, tuple(places), span, end)


def _source_characters(span: Range, lines: Sequence[bytes]) -> tuple[str, list[Position]]:
    """Return the text of a source range, and the position of each character and of the end."""
    characters: list[str] = []
    positions: list[Position] = []
    for line in range(span.start.line, span.end.line + 1):
        first = span.start.byte if line == span.start.line else 0
        last = span.end.byte if line == span.end.line else len(lines[line])
        byte = first
        for character in lines[line][first:last].decode():
            characters.append(character)
            positions.append(Position(line, byte))
            byte += len(character.encode())
        if line < span.end.line:
            characters.append("\n")
            positions.append(Position(line, byte))
    positions.append(span.end)
    return "".join(characters), positions


# -- definitions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class OperatorDefinition:
    """A call of ``torch.library`` that defines an operator, and its constant arguments.

    Attributes are None if the argument is missing or is not a constant in the source.
    """

    api: DefinitionApi
    """Called function."""
    call: Range
    """Source range of the call."""
    name: LocatedString | None = None
    """Argument with the name ``namespace::name``; None for ``Library.define``, where the schema has
    the name."""
    schema: LocatedString | None = None
    """Argument with the schema."""
    namespace: str = ""
    """Namespace of the ``Library`` object, for ``Library.define``; empty if unknown."""
    mutates: frozenset[str] | None = None
    """Names in the argument ``mutates_args``."""
    mutates_range: Range | None = None
    """Source range of the argument ``mutates_args``."""
    tags: frozenset[str] | None = frozenset()
    """Names in the argument ``tags``, empty if it is missing; None unless all are written as
    ``torch.Tag.name``."""
    function: str = ""
    """Name of the function that the call decorates; empty if it is not a decorator."""

    @property
    def qualname(self) -> str:
        """Qualified name ``namespace::name.overload`` of the operator; empty if it is not constant
        in the source."""
        if self.api != "Library.define":
            return self.name.value if self.name is not None else ""
        if self.schema is None or not self.namespace:
            return ""
        name = self.schema.value.partition("(")[0].strip()
        return name if "::" in name else f"{self.namespace}::{name}"

    @property
    def name_range(self) -> Range:
        """Source range of the operator's name without quotes; of the call if the name is not
        constant."""
        if self.api == "Library.define" and self.schema is not None:
            head = self.schema.value.partition("(")[0]
            start = len(head) - len(head.lstrip())
            return self.schema.range_between(start, start + len(head.strip()))
        if self.name is not None:
            return self.name.range_between(0, len(self.name.value))
        return self.call


def find_definitions(tree: ast.Module, text: str) -> list[OperatorDefinition]:
    """Return all calls in a file that define operators, in the order of their positions.

    ``tree`` is the syntax tree of ``text``.
    """
    if "library" not in text and "_op" not in text:
        return []
    found = _DefinitionFinder(tree, byte_lines(text)).found
    return sorted(
        found, key=lambda definition: (definition.call.start.line, definition.call.start.byte)
    )


class _DefinitionFinder:
    """Finds the calls that define operators, under any name by which a file imports
    ``torch.library``."""

    def __init__(self, tree: ast.Module, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._imports: dict[str, str] = {}
        self._libraries: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """Assignments of ``Library`` objects to variables, by variable name, as tuples (line,
        namespace).

        The namespace is empty if unknown.
        """
        self._decorated: dict[ast.Call, str] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._record_import(node)
        for node in nodes:
            self._record_binding(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call):
                        self._decorated[decorator] = node.name
        self.found = [
            found
            for node in nodes
            if isinstance(node, ast.Call) and (found := self._parse_call(node)) is not None
        ]

    # -- names --------------------------------------------------------------------------------

    def _record_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                self._imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _record_binding(self, node: ast.AST) -> None:
        """Record the variables that a statement binds to a ``Library`` object.

        Considered are assignments, ``with`` statements and parameters with the annotation
        ``Library``.
        """
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._record_assignment(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._record_assignment(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._record_assignment(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._record_assignment(target, value)
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                if self._full_name(annotation) == _LIBRARY_CLASSES[0]:
                    self._libraries[name].append((node.lineno, ""))

    def _record_assignment(self, target: ast.expr, value: ast.expr) -> None:
        name = dotted_name(target)
        if not name:
            return
        if isinstance(value, (ast.Name, ast.Attribute)):
            api = self._full_name(value)
            if isinstance(target, ast.Name) and (api in _APIS or api in _LIBRARY_CLASSES):
                self._imports.setdefault(name, api)
                return
        namespace = self._library_namespace(value)
        if namespace is not None:
            self._libraries[name].append((target.lineno, namespace))

    def _full_name(self, expression: ast.expr) -> str:
        """Return the dotted name of an expression, with an imported first name replaced by its
        full path."""
        name = dotted_name(expression)
        root, dot, rest = name.partition(".")
        return self._imports.get(root, root) + dot + rest

    def _library_namespace(self, expression: ast.expr) -> str | None:
        """Return the namespace of the ``Library`` object that an expression creates or names.

        Returns an empty string if the namespace is unknown, and None if the expression is not a
        ``Library``.
        """
        if isinstance(expression, ast.Call):
            if self._full_name(expression.func) not in _LIBRARY_CLASSES:
                return None
            namespace = _call_argument(expression, 0, "ns")
            if isinstance(namespace, ast.Constant) and isinstance(namespace.value, str):
                return namespace.value
            return ""
        bound = self._libraries.get(dotted_name(expression))
        if not bound:
            return None
        earlier = [assignment for assignment in bound if assignment[0] <= expression.lineno]
        return max(earlier)[1] if earlier else min(bound)[1]

    # -- calls --------------------------------------------------------------------------------

    def _parse_call(self, call: ast.Call) -> OperatorDefinition | None:
        if any(isinstance(argument, ast.Starred) for argument in call.args[:2]):
            return None
        api = _APIS.get(self._full_name(call.func))
        if api == "define" and call.args:
            namespace = self._library_namespace(call.args[0])
            if namespace is not None:  # the older form `define(lib, schema)`
                return self._library_definition(call, namespace, 1)
            return self._named_definition(call, api, 1)
        if api is not None:
            return self._named_definition(call, api, -1)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "define":
            namespace = self._library_namespace(call.func.value)
            if namespace is not None:
                return self._library_definition(call, namespace, 0)
        return None

    def _named_definition(
        self, call: ast.Call, api: DefinitionApi, schema: int
    ) -> OperatorDefinition:
        """Build the definition for a call whose first argument is the operator's qualified name.

        ``schema`` is the position of the schema argument; -1 if it can only be a keyword argument.
        """
        mutates = _call_argument(call, -1, "mutates_args")
        return OperatorDefinition(
            api,
            node_range(call),
            self._locate_string(_call_argument(call, 0, "")),
            self._locate_string(_call_argument(call, schema, "schema")),
            mutates=_literal_string_set(mutates),
            mutates_range=node_range(mutates) if mutates is not None else None,
            tags=self._tag_names(_call_argument(call, -1, "tags")),
            function=self._decorated.get(call, ""),
        )

    def _library_definition(
        self, call: ast.Call, namespace: str, schema: int
    ) -> OperatorDefinition:
        """Build the definition for a call of ``Library.define``.

        ``namespace`` is the library's, ``schema`` the position of the schema argument.
        """
        return OperatorDefinition(
            "Library.define",
            node_range(call),
            schema=self._locate_string(_call_argument(call, schema, "schema")),
            namespace=namespace,
            tags=self._tag_names(_call_argument(call, -1, "tags")),
        )

    def _locate_string(self, node: ast.expr | None) -> LocatedString | None:
        return None if node is None else locate_string(node, self._lines)

    def _tag_names(self, node: ast.expr | None) -> frozenset[str] | None:
        """Return the names of the tags in an argument; None unless all are written as
        ``torch.Tag.name``.

        The result is empty for a missing argument.
        """
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return frozenset()
        items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
        names = [self._full_name(item).rpartition("torch.Tag.") for item in items]
        if any(before or not found for before, found, _ in names):
            return None
        return frozenset(name for _, _, name in names)


def _call_argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """Return an argument of a call, given by position or keyword; None if it is missing.

    ``position`` is -1 for a keyword-only argument, ``keyword`` is empty for a positional-only
    argument.
    """
    if 0 <= position < len(call.args):
        return call.args[position]
    return next(
        (argument.value for argument in call.keywords if argument.arg == keyword and keyword), None
    )


def _literal_string_set(node: ast.expr | None) -> frozenset[str] | None:
    """Return the set of the strings in a literal tuple, list, set or dict; None for other
    expressions.

    A literal string gives the set of its characters, as ``set(...)`` would.
    """
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, (str, tuple, list, set, dict)):
        return None
    return frozenset(value) if all(isinstance(item, str) for item in value) else None
