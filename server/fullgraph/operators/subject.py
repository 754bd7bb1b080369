"""The name of torch that the cursor is on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fullgraph_engine.protocol.operators import Name, Operator, Overload

from .expressions import Certainty, Expressions, Value
from .imports import is_torch
from .index import OperatorIndex
from .scopes import suite_colon
from .seen import NOTHING_SEEN, Seen
from .text import Code, TextPlace, is_name


@dataclass(frozen=True)
class Subject:
    """``start`` and ``end`` are of the dotted name, up to the segment that the cursor is on.

    ``path`` is what the name resolves to (``torch.max``, ``torch.Tensor.max``,
    ``torch.ops.aten.add.Tensor``), ``name`` the entry of the index behind it, through aliases, and
    ``operator`` and ``overload`` those of a path under ``torch.ops``. With the cursor on the name
    of a keyword argument the subject is the callee, and ``parameter`` that name.
    """

    start: int
    end: int
    path: str
    name: Name | None = None
    operator: Operator | None = None
    overload: Overload | None = None
    parameter: str = ""
    certainty: Certainty = "certain"


def subject_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> Subject | None:
    """The name of torch at an offset of a text, which need not parse."""
    expressions = Expressions(text, index, seen)
    place = expressions.source.place(offset)
    if place is None:
        return None
    code = place.code
    word = code.name_at(offset)
    if word is None or not (is_name(code.words[word]) or code.word(word - 1) == "."):
        return None
    if (importing := import_around(code, word)) is not None:
        path = imported(code, importing, word)
        return None if path is None else _subject(expressions, code, word, Value("path", path))
    if names_something_new(code, word):
        return None
    if code.word(word + 1) == "=" and code.word(word - 1) in ("(", ","):
        opener = code.parent[word]
        if opener >= 0 and code.words[opener] == "(" and is_call(code, opener):
            callee = subject_of(expressions, place, opener - 1)
            return (
                None
                if callee is None
                else replace(
                    callee, parameter=code.words[word], start=code.starts[word], end=code.end(word)
                )
            )
    return subject_of(expressions, place, word)


def subject_of(expressions: Expressions, place: TextPlace, word: int) -> Subject | None:
    """The subject that is the name ending with a word of a place."""
    if not place.code.words[word].isidentifier():
        return None
    return _subject(expressions, place.code, word, expressions.name(place, word))


def _subject(expressions: Expressions, code: Code, word: int, value: Value) -> Subject | None:
    if value.kind != "path" or not is_torch(value.path):
        return None
    path = expressions.canonical(value.path)
    found = expressions.find(path)
    if found is None:
        return None
    return Subject(
        start=code.starts[_dotted_from(code, word)],
        end=code.end(word),
        path=path,
        name=found.name,
        operator=found.operator,
        overload=found.overload,
        certainty=value.certainty,
    )


def _dotted_from(code: Code, word: int) -> int:
    """The first word of the dotted name that ends with a word, as far as it is nothing but that."""
    while code.word(word - 1) == "." and is_name(code.word(word - 2)):
        word -= 2
    return word


# -- what kind of place it is --------------------------------------------------------------------


def is_call(code: Code, opener: int) -> bool:
    """Whether a parenthesis opens the arguments of a call."""
    before = opener - 1
    if not code.ends_operand(before):
        return False
    return not (is_name(code.words[before]) and code.word(before - 1) in ("def", "class"))


def names_something_new(code: Code, word: int) -> bool:
    """Whether a word is the name of a definition, or of one of its parameters."""
    before = code.word(word - 1)
    if before in ("def", "class"):
        return True
    opener = code.parent[word]
    return (
        opener >= 0
        and before in ("(", ",", "*", "**")
        and code.word(opener - 2) == "def"
        and code.parent[opener] < 0
    )


def import_around(code: Code, word: int) -> int | None:
    """The ``import`` or ``from`` of the import statement that a word is in."""
    first = 0
    colon = suite_colon(code)
    if colon is not None and colon < word:
        first = colon + 1  # `try: import torch`
    return first if code.word(first) in ("import", "from") else None


def imported(code: Code, first: int, word: int) -> str | None:
    """The path of torch that a word of an import statement names, up to the word."""
    if code.words[first] == "from":
        imports = next((i for i in range(first, word) if code.words[i] == "import"), None)
        if imports is None:
            path = "".join(code.words[first + 1 : word + 1])
        else:
            name = word
            if code.word(word - 1) == "as":
                name = word - 2
            module = "".join(code.words[first + 1 : imports])
            path = f"{module}.{code.word(name)}"
    else:
        last = word - 2 if code.word(word - 1) == "as" else word
        path = "".join(code.words[_dotted_from(code, last) : last + 1])
    return path if is_torch(path) else None
