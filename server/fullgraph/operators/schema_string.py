"""The schema, or the name of an operator, that a string of a ``torch.library`` call holds.

Tolerant like everything here: the call may not be finished, and what cannot be resolved is judged
by its looks.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from .imports import Imports
from .text import Code, SourceText, TextPlace, is_string

Part = Literal["schema", "name"]

_DEFINE = "torch.library.define"
_WITH_SCHEMA = ("torch.library.custom_op", "torch.library.triton_op")
_LIBRARIES = ("torch.library.Library(", "torch.library._scoped_library(")
_LITERAL = re.compile(r"(?P<prefix>[a-zA-Z]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_ESCAPE = re.compile(r"\\(?:N\{[^}]*\}|u\w{4}|U\w{8}|x\w{2}|[0-7]{1,3}|\r\n|.)", re.DOTALL)
_NAME = re.compile(r"\w+::\w[\w.]*")
_LOOKS = re.compile(r"\s*[\w:.]+\s*\(")


@dataclass(frozen=True)
class SchemaString:
    """``value`` is that of the whole string, ``inside`` the index in it of the cursor.

    ``start`` and ``end`` are offsets of the literal with its quotes. ``name`` is the name that the
    call gives before the schema, with its namespace; empty where it is in the schema (then
    ``namespace`` is that of the library, if known) or is not written out.
    """

    part: Part
    value: str
    inside: int
    start: int
    end: int
    name: str = ""
    namespace: str = ""

    @property
    def schema(self) -> str:
        """With the name of the operator in front."""
        if self.part == "name":
            return ""
        if self.value.lstrip().startswith("("):
            return (self.name or "op") + self.value.lstrip()
        lacks = self.namespace and "::" not in self.value.partition("(")[0]
        return f"{self.namespace}::{self.value.lstrip()}" if lacks else self.value

    @property
    def qualname(self) -> str:
        """``namespace::name.overload``, as far as it is known."""
        return self.name if self.part == "name" else self.schema.partition("(")[0].strip()


def schema_string_at(text: str, offset: int) -> SchemaString | None:
    """The string around an offset, if a call of ``torch.library`` takes it for a schema or name."""
    if "library" not in text and "Library" not in text:
        return None
    source = SourceText.of(text)
    word = bisect_right(source.starts, offset, hi=len(source.words)) - 1
    if word < 0 or not is_string(source.words[word]):
        return None
    statement = source.statement_before(offset)
    if statement < 0:
        return None
    code = source.code(statement)
    index = code.before(offset + 1)
    if index < 0 or code.starts[index] != source.starts[word]:
        return None
    opener = code.parent[index]
    if opener < 1 or code.words[opener] != "(":
        return None
    place = TextPlace(code, statement, source.columns[statement])
    return _argument(Imports.of(text), place, opener, index, offset)


def _argument(
    imports: Imports, place: TextPlace, opener: int, index: int, offset: int
) -> SchemaString | None:
    """What a call does with the string that is one of its arguments."""
    code = place.code
    first = last = index
    while is_string(code.word(first - 1)):
        first -= 1
    while last + 1 < len(code) and is_string(code.word(last + 1)):
        last += 1
    position, keyword = _slot(code, opener, first)
    callee = _dotted(code, opener)
    path = imports.resolve(callee, code.starts[opener - 1]) if callee else None
    read = _Literal(code, first, last, offset)
    start, end = code.starts[first], code.end(last)
    if not read.plain:
        return None
    if path == _DEFINE or path in _WITH_SCHEMA:
        name = _first(code, opener)
        if keyword == "schema" or (path == _DEFINE and position == 1 and not keyword):
            return SchemaString("schema", read.value, read.inside, start, end, name)
    if path is not None and path.startswith("torch.library."):
        if position == 0 and _NAME.fullmatch(read.value):
            return SchemaString("name", read.value, read.inside, start, end, read.value)
        return None
    if code.word(opener - 1) != "define" or code.word(opener - 2) != ".":
        return None
    if (position != 0 or keyword) and keyword != "schema":
        return None
    namespace = _namespace(imports, place, opener)
    if namespace is None and not _LOOKS.match(read.value):
        return None
    return SchemaString("schema", read.value, read.inside, start, end, namespace=namespace or "")


def _slot(code: Code, opener: int, index: int) -> tuple[int, str]:
    """The position of an argument in its call, and its keyword."""
    between = range(opener + 1, index)
    position = sum(code.words[i] == "," and code.parent[i] == opener for i in between)
    named = code.word(index - 1) == "="
    return position, code.word(index - 2) if named else ""


def _dotted(code: Code, opener: int) -> str:
    """The dotted name that is called, or nothing."""
    first = code.operand(opener - 1)
    words = code.words[first:opener] if first is not None else []
    return "".join(words) if all(w == "." or w.isidentifier() for w in words) else ""


def _first(code: Code, opener: int) -> str:
    """The first argument of a call, where it is a string."""
    first = opener + 1
    if not is_string(code.word(first)):
        return ""
    last = first
    while is_string(code.word(last + 1)):
        last += 1
    read = _Literal(code, first, last, 0)
    return read.value if read.plain and code.word(last + 1) in (",", ")") else ""


def _namespace(imports: Imports, place: TextPlace, opener: int) -> str | None:
    """The namespace of the library in ``library.define(``; None where it may be none."""
    code = place.code
    last = opener - 3
    first = code.operand(last)
    if first is None:
        return None
    words = code.words[first : last + 1]
    if len(words) == 1:
        found = imports.bound(words[0], place, first)
        if found is None or found.chosen.code is None:
            return None
        binding = found.chosen
        assert binding.code is not None
        return _of_library(imports, binding.code, binding.first, binding.last)
    return _of_library(imports, code, first, last)


def _of_library(imports: Imports, code: Code, first: int, last: int) -> str | None:
    opener = next((i for i in range(first, last + 1) if code.words[i] == "("), -1)
    if opener < 1:
        return None
    path = imports.resolve("".join(code.words[first:opener]), code.starts[first])
    if path is None or path + "(" not in _LIBRARIES:
        return None
    return _first(code, opener)


class _Literal:
    """The value of strings that stand next to each other, and where in it an offset is."""

    def __init__(self, code: Code, first: int, last: int, offset: int) -> None:
        self.plain = True
        self.value = ""
        self.inside = 0
        for index in range(first, last + 1):
            self._add(code.words[index], code.starts[index], offset)

    def _add(self, word: str, start: int, offset: int) -> None:
        opening = _LITERAL.match(word)
        if opening is None or set(opening["prefix"].lower()) & set("fbt"):
            self.plain = False
            return
        at, quote = opening.end(), opening["quote"]
        closed = word.endswith(quote) and len(word) >= at + len(quote)
        stop = len(word) - len(quote) if closed else len(word)
        raw = "r" in opening["prefix"].lower()
        while at < stop:
            escape = None if raw else _ESCAPE.match(word, at, stop)
            length = len(escape[0]) if escape is not None else 1
            if start + at <= offset:
                self.inside = len(self.value)
            self.value += word[at] if escape is None else _unescaped(escape[0])
            at += length
        if start + stop <= offset:
            self.inside = len(self.value)


def _unescaped(escape: str) -> str:
    if escape in ("\\\n", "\\\r\n"):
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(ast.literal_eval(f"'{escape}'"))
    except (SyntaxError, ValueError):
        return escape
