"""Find the dotted name that the user is typing at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

from .expressions import TENSOR, Certainty, ExpressionEvaluator, TorchValue
from .imports import is_torch
from .index import OperatorIndex
from .seen import NOTHING_SEEN, Seen
from .subject import import_around, is_definition_name
from .text import StatementTokens


@dataclass(frozen=True)
class DottedName:
    """The dotted name at the cursor, split at its last dot."""

    base: str
    """Path in torch of the part before the last dot, for example ``torch.ops.aten``; empty if
    unknown or without a dot."""
    prefix: str
    """Text between the last dot and the cursor."""
    start: int
    """Start offset of the name after the last dot."""
    end: int
    """End offset of the name after the last dot, which may be behind the cursor."""
    certainty: Certainty
    """How the text before the last dot was resolved to ``base``: by imports, or as a guess."""
    importing: bool
    """True if the name is in an import statement."""


def dotted_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> DottedName | None:
    """Return the dotted name, such as ``torch.nn.Li``, that the user is typing at an offset.

    Returns None inside comments and plain strings, and where the user types a new name, as after
    ``def``. ``seen`` are the types of expressions that the last trace of the text recorded.
    """
    expressions = ExpressionEvaluator(text, index, seen)
    place = expressions.source.place_at(offset)
    if place is None:
        return None
    code = place.code
    previous = code.last_before(offset)
    start = end = offset
    if (
        previous >= 0
        and code.end_of(previous) >= offset
        and _starts_like_name(code.tokens[previous])
    ):
        if not code.tokens[previous].isidentifier() or is_definition_name(code, previous):
            return None
        start, end = code.starts[previous], code.end_of(previous)
        previous -= 1
    elif previous + 1 < len(code) and code.starts[previous + 1] == offset:
        # The cursor is at the start of a token, which the completion replaces.
        if code.tokens[previous + 1].isidentifier() and code.token_or_empty(previous) == ".":
            end = code.end_of(previous + 1)
    elif previous >= 0 and code.tokens[previous] in ("def", "class"):
        return None
    prefix = text[start:offset]
    if (importing := import_around(code, previous + 1)) is not None and previous >= importing:
        module = _imported_from(code, importing, previous)
        if module is None:
            return None
        base = module if is_torch(module) else ""
        return DottedName(base, prefix, start, end, "certain", True)
    if previous < 0 or code.tokens[previous] != ".":
        return DottedName("", prefix, start, end, "certain", False)
    base, certainty = _receiver_base(expressions, expressions.evaluate_receiver(place, previous))
    return DottedName(base, prefix, start, end, certainty, False)


def _starts_like_name(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _receiver_base(expressions: ExpressionEvaluator, value: TorchValue) -> tuple[str, Certainty]:
    value = expressions.resolve_property(value)
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


def _path_base(expressions: ExpressionEvaluator, value: TorchValue) -> tuple[str, Certainty]:
    path = expressions.canonical_path(value.path)
    name = expressions.index.target(path)
    if name is None:
        return path, value.certainty
    if name.kind in ("module", "class"):
        return name.path, value.certainty
    return "", "certain"


def _imported_from(code: StatementTokens, first: int, last: int) -> str | None:
    """Return the module from which an import statement imports the name after the token ``last``.

    ``first`` is the index of the token ``import`` or ``from``. Returns an empty string at the first
    name of a module path, and None after ``as``, where the user types a new name.
    """
    token = code.tokens[last]
    if token == "as":
        return None
    if code.tokens[first] == "from":
        imports = next((i for i in range(first, last + 1) if code.tokens[i] == "import"), None)
        if imports is not None:
            expected = token in ("import", "(", ",")
            return "".join(code.tokens[first + 1 : imports]) if expected else ""
        return "".join(code.tokens[first + 1 : last]) if token == "." else ""
    begin = last
    while begin - 1 > first and code.tokens[begin - 1] not in (",", "import"):
        begin -= 1
    return "".join(code.tokens[begin:last]) if token == "." else ""
