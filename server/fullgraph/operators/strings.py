"""Strings that name an operator or hold a schema, as ``torch.library`` takes them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from .index import OperatorIndex
from .lookup import look_up
from .schema import Schema, SchemaError, parse_schema
from .subject import Subject
from .text import Code, Source, is_string

_LITERAL = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)
_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?")
_DEFINING = frozenset({"define", "custom_op"})
"""The functions and methods of ``torch.library`` that take a schema."""


@dataclass(frozen=True)
class WrittenSchema:
    """A schema in a string; ``text`` is as written, ``start`` and ``end`` those of the literal."""

    start: int
    end: int
    text: str
    schema: Schema


def string_at(text: str, offset: int, index: OperatorIndex) -> Subject | WrittenSchema | None:
    """The operator or the schema that a string at an offset holds; None for other strings."""
    source = Source.of(text)
    word = bisect_right(source.starts, offset, hi=len(source.words)) - 1
    if word < 0 or not is_string(source.words[word]):
        return None
    start = source.starts[word]
    end = start + len(source.words[word])
    literal = _LITERAL.fullmatch(source.words[word])
    if literal is None or offset >= end:
        return None
    content = literal[2].strip()
    if _OPERATOR.fullmatch(content):
        return _subject(index, content, start, end)
    if "->" not in content:
        return None
    code = source.code(source.statement_before(offset))
    opener = code.bracket(start)
    if opener < 1 or code.words[opener - 1] not in _DEFINING:
        return None
    # Where the operator is named before its schema, this is the schema of that one.
    named = _named(code, opener)
    if named and (subject := _subject(index, named, start, end)) is not None:
        return subject
    try:
        return WrittenSchema(start, end, content, parse_schema(_complete(content)))
    except SchemaError:
        return None


def _subject(index: OperatorIndex, content: str, start: int, end: int) -> Subject | None:
    for found in look_up(index, content):
        return Subject(start, end, found.path, operator=found.operator, overload=found.overload)
    return None


def _named(code: Code, opener: int) -> str:
    literal = _LITERAL.fullmatch(code.word(opener + 1))
    content = literal[2].strip() if literal is not None else ""
    return content if _OPERATOR.fullmatch(content) else ""


def _complete(content: str) -> str:
    """A schema may be given without the name, which then stands before it."""
    return f"_{content}" if content.startswith("(") else content
