"""Find the string at the cursor that a ``torch.library`` call takes as an operator's schema or
name.

The call may be incomplete. If the library object of ``library.define(...)`` is unknown, the content
of the string decides.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from .imports import Imports
from .text import StatementTokens, TextPlace, TokenizedText, is_string

StringPart = Literal["schema", "name"]

_DEFINE = "torch.library.define"
_WITH_SCHEMA = ("torch.library.custom_op", "torch.library.triton_op")
_LIBRARIES = ("torch.library.Library(", "torch.library._scoped_library(")
_LITERAL = re.compile(r"(?P<prefix>[a-zA-Z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_ESCAPE = re.compile(r"\\(?:N\{[^}]*\}|u\w{4}|U\w{8}|x\w{2}|[0-7]{1,3}|\r\n|.)", re.DOTALL)
_NAME = re.compile(r"\w+::\w[\w.]*")
_LOOKS_LIKE_SCHEMA = re.compile(r"\s*[\w:.]+\s*\(")


@dataclass(frozen=True)
class SchemaString:
    """A string argument with the schema or the qualified name of an operator."""

    part: StringPart
    """Content of the string: a schema, or only a name."""
    value: str
    """Value of the string, with adjacent literals joined."""
    cursor: int
    """Index of the cursor in ``value``."""
    start: int
    """Start offset of the first literal, including its quotes."""
    end: int
    """End offset of the last literal, including its quotes."""
    name: str = ""
    """Qualified name that an argument before the schema gives; empty if the schema itself contains
    the name, or if it is unknown.
    """
    namespace: str = ""
    """Namespace of the ``Library`` whose ``define`` is called; empty if unknown or for other
    calls."""

    @property
    def schema(self) -> str:
        """Schema that begins with the operator's name; empty if the string has only a name."""
        if self.part == "name":
            return ""
        if self.value.lstrip().startswith("("):
            return (self.name or "op") + self.value.lstrip()
        lacks = self.namespace and "::" not in self.value.partition("(")[0]
        return f"{self.namespace}::{self.value.lstrip()}" if lacks else self.value

    @property
    def qualname(self) -> str:
        """Qualified name ``namespace::name.overload`` of the operator, without unknown parts."""
        return self.name if self.part == "name" else self.schema.partition("(")[0].strip()


def schema_string_at(text: str, offset: int) -> SchemaString | None:
    """Return the string literal around an offset, if a ``torch.library`` call takes it as a schema
    or operator name; else None.
    """
    if "library" not in text and "Library" not in text:
        return None
    source = TokenizedText.for_text(text)
    token = bisect_right(source.starts, offset, hi=len(source.tokens)) - 1
    if token < 0 or not is_string(source.tokens[token]):
        return None
    statement = source.statement_before(offset)
    if statement < 0:
        return None
    code = source.statement_tokens(statement)
    index = code.last_before(offset + 1)
    if index < 0 or code.starts[index] != source.starts[token]:
        return None
    opener = code.parent[index]
    if opener < 1 or code.tokens[opener] != "(":
        return None
    place = TextPlace(code, statement, source.columns[statement])
    return _classify_string(Imports.for_text(text), place, opener, index, offset)


def _classify_string(
    imports: Imports, place: TextPlace, opener: int, index: int, offset: int
) -> SchemaString | None:
    """Return a string argument of a call if the call takes it as a schema or operator name; None
    for other strings.

    ``opener`` is the token index of the call's parenthesis, ``index`` the token index of the
    string, and ``offset`` the cursor.
    """
    code = place.code
    first = last = index
    while is_string(code.token_or_empty(first - 1)):
        first -= 1
    while last + 1 < len(code) and is_string(code.token_or_empty(last + 1)):
        last += 1
    position, keyword = _argument_slot(code, opener, first)
    callee = _callee_name(code, opener)
    path = imports.resolve_name(callee, code.starts[opener - 1]) if callee else None
    read = _JoinedLiteral(code, first, last, offset)
    start, end = code.starts[first], code.end_of(last)
    if not read.plain:
        return None
    if path == _DEFINE or path in _WITH_SCHEMA:
        name = _first_string(code, opener)
        if keyword == "schema" or (path == _DEFINE and position == 1 and not keyword):
            return SchemaString("schema", read.value, read.cursor, start, end, name)
    if path is not None and path.startswith("torch.library."):
        if position == 0 and _NAME.fullmatch(read.value):
            return SchemaString("name", read.value, read.cursor, start, end, read.value)
        return None
    if code.token_or_empty(opener - 1) != "define" or code.token_or_empty(opener - 2) != ".":
        return None
    if (position != 0 or keyword) and keyword != "schema":
        return None
    namespace = _receiver_namespace(imports, place, opener)
    if namespace is None and not _LOOKS_LIKE_SCHEMA.match(read.value):
        return None
    return SchemaString("schema", read.value, read.cursor, start, end, namespace=namespace or "")


def _argument_slot(code: StatementTokens, opener: int, index: int) -> tuple[int, str]:
    """Return the position of an argument in its call, and its keyword (empty if positional).

    ``opener`` is the token index of the call's opening parenthesis, ``index`` the token index of
    the argument's value.
    """
    between = range(opener + 1, index)
    position = sum(code.tokens[i] == "," and code.parent[i] == opener for i in between)
    named = code.token_or_empty(index - 1) == "="
    return position, code.token_or_empty(index - 2) if named else ""


def _callee_name(code: StatementTokens, opener: int) -> str:
    """Return the dotted name before the parenthesis of a call; empty if another expression is
    called."""
    first = code.operand_start(opener - 1)
    tokens = code.tokens[first:opener] if first is not None else []
    return "".join(tokens) if all(w == "." or w.isidentifier() for w in tokens) else ""


def _first_string(code: StatementTokens, opener: int) -> str:
    """Return the value of a call's first argument, if it is a constant string; else "".

    ``opener`` is the token index of the call's parenthesis.
    """
    first = opener + 1
    if not is_string(code.token_or_empty(first)):
        return ""
    last = first
    while is_string(code.token_or_empty(last + 1)):
        last += 1
    read = _JoinedLiteral(code, first, last, 0)
    return read.value if read.plain and code.token_or_empty(last + 1) in (",", ")") else ""


def _receiver_namespace(imports: Imports, place: TextPlace, opener: int) -> str | None:
    """Return the namespace of ``lib``, a ``torch.library.Library``, in the call ``lib.define(…)``.

    ``opener`` is the token index of the parenthesis. Returns an empty string if the namespace is
    unknown, and None if the object may not be a library.
    """
    code = place.code
    last = opener - 3
    first = code.operand_start(last)
    if first is None:
        return None
    tokens = code.tokens[first : last + 1]
    if len(tokens) == 1:
        found = imports.find_binding(tokens[0], place, first)
        if found is None or found.chosen.code is None:
            return None
        binding = found.chosen
        assert binding.code is not None
        return _library_namespace(imports, binding.code, binding.first, binding.last)
    return _library_namespace(imports, code, first, last)


def _library_namespace(
    imports: Imports, code: StatementTokens, first: int, last: int
) -> str | None:
    """Return the namespace in a call ``Library("ns", ...)`` with the tokens ``first`` to ``last``.

    Returns an empty string if the namespace is not constant, and None for other expressions.
    """
    opener = next((i for i in range(first, last + 1) if code.tokens[i] == "("), -1)
    if opener < 1:
        return None
    path = imports.resolve_name("".join(code.tokens[first:opener]), code.starts[first])
    if path is None or path + "(" not in _LIBRARIES:
        return None
    return _first_string(code, opener)


class _JoinedLiteral:
    """The joined value of adjacent string literals, from token ``first`` to ``last``.

    ``cursor`` is the index in the value of the source offset ``offset``. ``plain`` is false if a
    literal is formatted or bytes, so that the value is incomplete.
    """

    def __init__(self, code: StatementTokens, first: int, last: int, offset: int) -> None:
        self.plain = True
        self.value = ""
        self.cursor = 0
        for index in range(first, last + 1):
            self._append_token(code.tokens[index], code.starts[index], offset)

    def _append_token(self, token: str, start: int, offset: int) -> None:
        opening = _LITERAL.match(token)
        if opening is None or set(opening["prefix"].lower()) & set("fbt"):
            self.plain = False
            return
        at, quote = opening.end(), opening["quote"]
        closed = token.endswith(quote) and len(token) >= at + len(quote)
        stop = len(token) - len(quote) if closed else len(token)
        raw = "r" in opening["prefix"].lower()
        while at < stop:
            escape = None if raw else _ESCAPE.match(token, at, stop)
            length = len(escape[0]) if escape is not None else 1
            if start + at <= offset:
                self.cursor = len(self.value)
            self.value += token[at] if escape is None else _unescape_sequence(escape[0])
            at += length
        if start + stop <= offset:
            self.cursor = len(self.value)


def _unescape_sequence(escape: str) -> str:
    if escape in ("\\\n", "\\\r\n"):
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(ast.literal_eval(f"'{escape}'"))
    except (SyntaxError, ValueError):
        return escape
