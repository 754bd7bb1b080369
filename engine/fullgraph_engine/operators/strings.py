"""The operator definitions of a text, and the strings in them, character by character.

``torch.library.define``, ``Library.define``, ``custom_op`` and ``triton_op``, under whatever names
the text has imported them. Only the syntax tree is looked at: a schema that is put together at
run time is not found.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as Choice

from ..protocol import Position, Range
from ..targets.source import byte_lines, range_of, written

Api = Choice["define", "Library.define", "custom_op", "triton_op"]

_APIS: dict[str, Api] = {
    "torch.library.define": "define",
    "torch.library.custom_op": "custom_op",
    "torch._library.custom_ops.custom_op": "custom_op",
    "torch._library.custom_op": "custom_op",
    "torch.library.triton_op": "triton_op",
    "torch._library.triton.triton_op": "triton_op",
    "torch._library.triton_op": "triton_op",
}
_LIBRARIES = ("torch.library.Library", "torch.library._scoped_library")


# -- strings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemaString:
    """A constant string. ``places`` has the range in the text of every character of its value.

    ``whole`` goes from the first opening quote to the last closing one, ``end`` is the place of
    the last closing quote.
    """

    value: str
    places: tuple[Range, ...]
    whole: Range
    end: Range

    def range(self, start: int, stop: int) -> Range:
        """Where the characters from ``start`` to before ``stop`` are written; one at least."""
        if start >= len(self.value):
            return self.end
        last = min(max(stop, start + 1), len(self.value)) - 1
        return Range(self.places[start].start, self.places[last].end)


_OPENING = re.compile(r"(?P<prefix>[bBrRuU]{0,2})(?P<quote>'''|\"\"\"|'|\")")
_ESCAPE = re.compile(
    r"\\(?:\n|N\{[^}]*\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{1,3}|[\\'\"abfnrtv])"
)
_BETWEEN = re.compile(r"(?:\s|\\\n|#[^\n]*)*")


def string_of(node: ast.expr, lines: Sequence[bytes]) -> SchemaString | None:
    """The string that an expression is written as; None if it is anything but constant strings."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = string_of(node.left, lines), string_of(node.right, lines)
        if left is None or right is None:
            return None
        return SchemaString(
            left.value + right.value, left.places + right.places, range_of(node), right.end
        )
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    whole = range_of(node)
    text, positions = _source(whole, lines)
    written: list[Range] = []
    end = whole
    value = ""
    at = 0
    while at < len(text):
        opening = _OPENING.match(text, at)
        if opening is None:
            return _as_a_whole(node.value, whole)
        raw, quote = "r" in opening["prefix"].lower(), opening["quote"]
        at = opening.end()
        escaped = False  # even in a raw string a quote behind a backslash does not end it
        while escaped or not text.startswith(quote, at):
            length, piece = _piece(text, at, raw)
            escaped = raw and piece == "\\" and not escaped
            if not length:
                return _as_a_whole(node.value, whole)
            place = Range(positions[at], positions[at + length])
            value += piece
            written.extend([place] * len(piece))
            at += length
        end = Range(positions[at], positions[at + len(quote)])
        between = _BETWEEN.match(text, at + len(quote))
        at = between.end() if between is not None else len(text)
    if value != node.value:
        return _as_a_whole(node.value, whole)
    return SchemaString(value, tuple(written), whole, end)


def _piece(text: str, at: int, raw: bool) -> tuple[int, str]:
    """How many characters the next piece of a string has, and what it stands for."""
    if at >= len(text):
        return 0, ""
    if text[at] != "\\":
        return 1, text[at]
    if raw:
        return 1, "\\"
    escape = _ESCAPE.match(text, at)
    if escape is None:
        return 1, "\\"
    if escape[0] == "\\\n":
        return 2, ""
    return len(escape[0]), str(ast.literal_eval(f"'{escape[0]}'"))


def _source(whole: Range, lines: Sequence[bytes]) -> tuple[str, list[Position]]:
    """The characters in a range of the text, and the place of each, and of the end."""
    characters: list[str] = []
    positions: list[Position] = []
    for line in range(whole.start.line, whole.end.line + 1):
        first = whole.start.byte if line == whole.start.line else 0
        last = whole.end.byte if line == whole.end.line else len(lines[line])
        byte = first
        for character in lines[line][first:last].decode():
            characters.append(character)
            positions.append(Position(line, byte))
            byte += len(character.encode())
        if line < whole.end.line:
            characters.append("\n")
            positions.append(Position(line, byte))
    positions.append(whole.end)
    return "".join(characters), positions


def _as_a_whole(value: str, whole: Range) -> SchemaString:
    """Where it cannot be told which character is which: all of them are everywhere."""
    return SchemaString(value, (whole,) * len(value), whole, whole)


# -- definitions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Definition:
    """A call that defines an operator.

    ``name`` is its first argument, ``namespace::name``; for ``Library.define`` the name is in the
    schema and ``namespace`` comes from the library. What is not constant is None. ``mutates`` and
    ``tags`` are None where they are not written out.
    """

    api: Api
    call: Range
    name: SchemaString | None = None
    schema: SchemaString | None = None
    namespace: str = ""
    mutates: frozenset[str] | None = None
    mutates_range: Range | None = None
    tags: frozenset[str] | None = frozenset()
    function: str = ""
    """The function that is being decorated."""

    @property
    def qualname(self) -> str:
        """``namespace::name.overload``; empty where the text does not say it all."""
        if self.api != "Library.define":
            return self.name.value if self.name is not None else ""
        if self.schema is None or not self.namespace:
            return ""
        name = self.schema.value.partition("(")[0].strip()
        return name if "::" in name else f"{self.namespace}::{name}"

    @property
    def name_range(self) -> Range:
        """Where its name is written, without quotes."""
        if self.api == "Library.define" and self.schema is not None:
            head = self.schema.value.partition("(")[0]
            start = len(head) - len(head.lstrip())
            return self.schema.range(start, start + len(head.strip()))
        if self.name is not None:
            return self.name.range(0, len(self.name.value))
        return self.call


def definitions(tree: ast.Module, text: str) -> list[Definition]:
    """All operator definitions of a text, in its order."""
    if "library" not in text and "_op" not in text:
        return []
    found = _Search(tree, byte_lines(text)).found
    return sorted(found, key=lambda one: (one.call.start.line, one.call.start.byte))


class _Search:
    def __init__(self, tree: ast.Module, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._imports: dict[str, str] = {}
        self._libraries: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By the name that it is bound to: on which line, and its namespace, empty if unknown."""
        self._decorated: dict[ast.Call, str] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._import(node)
        for node in nodes:
            self._bind(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call):
                        self._decorated[decorator] = node.name
        self.found = [
            found
            for node in nodes
            if isinstance(node, ast.Call) and (found := self._definition(node)) is not None
        ]

    # -- names --------------------------------------------------------------------------------

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                self._imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _bind(self, node: ast.AST) -> None:
        """Note what may become a library: assignments, ``with`` and annotated parameters."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign(target, value)
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                if self._dotted(annotation) == _LIBRARIES[0]:
                    self._libraries[name].append((node.lineno, ""))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        name = written(target)
        if not name:
            return
        if isinstance(value, (ast.Name, ast.Attribute)):
            api = self._dotted(value)
            if isinstance(target, ast.Name) and (api in _APIS or api in _LIBRARIES):
                self._imports.setdefault(name, api)
                return
        namespace = self._library(value)
        if namespace is not None:
            self._libraries[name].append((target.lineno, namespace))

    def _dotted(self, expression: ast.expr) -> str:
        """The full name of an expression through the imports."""
        name = written(expression)
        root, dot, rest = name.partition(".")
        return self._imports.get(root, root) + dot + rest

    def _library(self, expression: ast.expr) -> str | None:
        """The namespace of a library that is made or named here; empty if that is not known."""
        if isinstance(expression, ast.Call):
            if self._dotted(expression.func) not in _LIBRARIES:
                return None
            namespace = _argument(expression, 0, "ns")
            if isinstance(namespace, ast.Constant) and isinstance(namespace.value, str):
                return namespace.value
            return ""
        bound = self._libraries.get(written(expression))
        if not bound:
            return None
        earlier = [one for one in bound if one[0] <= expression.lineno]
        return max(earlier)[1] if earlier else min(bound)[1]

    # -- calls --------------------------------------------------------------------------------

    def _definition(self, call: ast.Call) -> Definition | None:
        if any(isinstance(argument, ast.Starred) for argument in call.args[:2]):
            return None
        api = _APIS.get(self._dotted(call.func))
        if api == "define" and call.args:
            namespace = self._library(call.args[0])
            if namespace is not None:  # the older form, define(lib, schema)
                return self._in_library(call, namespace, 1)
            return self._known(call, api, 1)
        if api is not None:
            return self._known(call, api, -1)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "define":
            namespace = self._library(call.func.value)
            if namespace is not None:
                return self._in_library(call, namespace, 0)
        return None

    def _known(self, call: ast.Call, api: Api, schema: int) -> Definition:
        """A call whose first argument is the qualified name."""
        mutates = _argument(call, -1, "mutates_args")
        return Definition(
            api,
            range_of(call),
            self._string(_argument(call, 0, "")),
            self._string(_argument(call, schema, "schema")),
            mutates=_strings(mutates),
            mutates_range=range_of(mutates) if mutates is not None else None,
            tags=self._tags(_argument(call, -1, "tags")),
            function=self._decorated.get(call, ""),
        )

    def _in_library(self, call: ast.Call, namespace: str, schema: int) -> Definition:
        return Definition(
            "Library.define",
            range_of(call),
            schema=self._string(_argument(call, schema, "schema")),
            namespace=namespace,
            tags=self._tags(_argument(call, -1, "tags")),
        )

    def _string(self, node: ast.expr | None) -> SchemaString | None:
        return None if node is None else string_of(node, self._lines)

    def _tags(self, node: ast.expr | None) -> frozenset[str] | None:
        """The names of the tags; None where not all of them are written as ``torch.Tag.name``."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return frozenset()
        each = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
        names = [self._dotted(item).rpartition("torch.Tag.") for item in each]
        if any(before or not found for before, found, _ in names):
            return None
        return frozenset(name for _, _, name in names)


def _argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """An argument by its position (-1 for none) or by its keyword."""
    if 0 <= position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == keyword and keyword), None)


def _strings(node: ast.expr | None) -> frozenset[str] | None:
    """What ``set(...)`` makes of a literal; None if it is no literal of strings."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, (str, tuple, list, set, dict)):
        return None
    return frozenset(value) if all(isinstance(item, str) for item in value) else None
