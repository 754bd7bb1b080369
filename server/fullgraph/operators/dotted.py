"""The dotted name that is being typed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

from .expressions import TENSOR, Certainty, Expressions, Value
from .imports import is_torch
from .index import OperatorIndex
from .seen import NOTHING_SEEN, Seen
from .subject import import_around, names_something_new
from .text import Code


@dataclass(frozen=True)
class Dotted:
    """``base`` is what is left of the last dot, resolved (``torch.ops.aten``), and
    empty where it is unknown or there is no dot; ``prefix`` the last part as far as it is typed,
    ``start`` and ``end`` the span of that part. ``importing``: in an import statement."""

    base: str
    prefix: str
    start: int
    end: int
    certainty: Certainty
    importing: bool


def dotted_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> Dotted | None:
    """The dotted name at an offset; None inside comments and ordinary strings, and where a name
    is being made up."""
    expressions = Expressions(text, index, seen)
    place = expressions.source.place(offset)
    if place is None:
        return None
    code = place.code
    left = code.before(offset)
    start = end = offset
    if left >= 0 and code.end(left) >= offset and _is_word(code.words[left]):
        if not code.words[left].isidentifier() or names_something_new(code, left):
            return None
        start, end = code.starts[left], code.end(left)
        left -= 1
    elif left + 1 < len(code) and code.starts[left + 1] == offset:
        # At the start of a word: it is replaced.
        if code.words[left + 1].isidentifier() and code.word(left) == ".":
            end = code.end(left + 1)
    elif left >= 0 and code.words[left] in ("def", "class"):
        return None
    prefix = text[start:offset]
    if (importing := import_around(code, left + 1)) is not None and left >= importing:
        module = _imported_from(code, importing, left)
        if module is None:
            return None
        base = module if is_torch(module) else ""
        return Dotted(base, prefix, start, end, "certain", True)
    if left < 0 or code.words[left] != ".":
        return Dotted("", prefix, start, end, "certain", False)
    base, certainty = _base(expressions, expressions.receiver(place, left))
    return Dotted(base, prefix, start, end, certainty, False)


def _is_word(word: str) -> bool:
    return word[0].isalnum() or word[0] == "_"


def _base(expressions: Expressions, value: Value) -> tuple[str, Certainty]:
    value = expressions.settled(value)
    match value.kind:
        case "path":
            return _path_base(expressions, value)
        case "tensor":
            return TENSOR, value.certainty
        case "instance":
            return value.path, value.certainty
        case "unknown":
            return "", "guess"
        case _:
            return "", "certain"


def _path_base(expressions: Expressions, value: Value) -> tuple[str, Certainty]:
    path = expressions.canonical(value.path)
    name = expressions.index.target(path)
    if name is None:
        return path, value.certainty
    if name.kind in ("module", "class"):
        return name.path, value.certainty
    return "", "certain"


def _imported_from(code: Code, first: int, left: int) -> str | None:
    """What the name behind a word of an import statement is a member of: empty for a root, None
    where a name of one's own is wanted."""
    word = code.words[left]
    if word == "as":
        return None
    if code.words[first] == "from":
        imports = next((i for i in range(first, left + 1) if code.words[i] == "import"), None)
        if imports is not None:
            expected = word in ("import", "(", ",")
            return "".join(code.words[first + 1 : imports]) if expected else ""
        return "".join(code.words[first + 1 : left]) if word == "." else ""
    begin = left
    while begin - 1 > first and code.words[begin - 1] not in (",", "import"):
        begin -= 1
    return "".join(code.words[begin:left]) if word == "." else ""
