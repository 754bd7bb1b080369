"""Resolve the name at the cursor to a name or operator of torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fullgraph_engine.protocol.operators import Name, Operator, Overload

from .expressions import Certainty, ExpressionEvaluator, TorchValue
from .imports import is_torch
from .index import OperatorIndex
from .scopes import suite_colon
from .seen import NOTHING_SEEN, Seen
from .text import StatementTokens, TextPlace, is_name


@dataclass(frozen=True)
class Subject:
    """The name or operator of torch that a name in a text refers to.

    If the cursor is on ``dim`` in ``torch.sum(x, dim=1)``, it is the called function, and
    ``parameter`` is ``dim``.
    """

    start: int
    """Start offset of the dotted name in the text."""
    end: int
    """End offset of the dotted name's part up to the cursor's word: of ``torch.nn`` in
    ``torch.nn.Linear``, with the cursor on ``nn``.
    """
    path: str
    """Path that the name resolves to, for example ``torch.Tensor.max`` or
    ``torch.ops.aten.add.Tensor``."""
    name: Name | None = None
    """Index entry of the path, with aliases followed; None for operators."""
    operator: Operator | None = None
    """Operator, if the path is below ``torch.ops``."""
    overload: Overload | None = None
    """Overload of the operator, if the path names one."""
    parameter: str = ""
    """Parameter that the keyword at the cursor names, as ``dim`` in ``f(dim=1)``; empty if the
    cursor is not on a keyword argument's name.
    """
    certainty: Certainty = "certain"
    """How the name was resolved, from certain to a guess."""


def subject_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> Subject | None:
    """Return the name or operator of torch that the name at an offset refers to; None for others.

    The text may have syntax errors. ``seen`` are the types of expressions that the last trace of
    the text recorded.
    """
    expressions = ExpressionEvaluator(text, index, seen)
    place = expressions.source.place_at(offset)
    if place is None:
        return None
    code = place.code
    token = code.identifier_at(offset)
    if token is None or not (is_name(code.tokens[token]) or code.token_or_empty(token - 1) == "."):
        return None
    if (importing := import_around(code, token)) is not None:
        path = imported_path(code, importing, token)
        return (
            None
            if path is None
            else _resolve_subject(expressions, code, token, TorchValue("path", path))
        )
    if is_definition_name(code, token):
        return None
    if code.token_or_empty(token + 1) == "=" and code.token_or_empty(token - 1) in ("(", ","):
        opener = code.parent[token]
        if opener >= 0 and code.tokens[opener] == "(" and is_call(code, opener):
            callee = subject_of_token(expressions, place, opener - 1)
            return (
                None
                if callee is None
                else replace(
                    callee,
                    parameter=code.tokens[token],
                    start=code.starts[token],
                    end=code.end_of(token),
                )
            )
    return subject_of_token(expressions, place, token)


def subject_of_token(
    expressions: ExpressionEvaluator, place: TextPlace, token: int
) -> Subject | None:
    """Resolve the dotted name that ends with a token to a name or operator of torch.

    ``token`` is the index of the token. None if the name is not part of torch.
    """
    if not place.code.tokens[token].isidentifier():
        return None
    return _resolve_subject(expressions, place.code, token, expressions.evaluate_name(place, token))


def _resolve_subject(
    expressions: ExpressionEvaluator, code: StatementTokens, token: int, value: TorchValue
) -> Subject | None:
    if value.kind != "path" or not is_torch(value.path):
        return None
    path = expressions.canonical_path(value.path)
    found = expressions.find_path(path)
    if found is None:
        return None
    return Subject(
        start=code.starts[_dotted_start(code, token)],
        end=code.end_of(token),
        path=path,
        name=found.name,
        operator=found.operator,
        overload=found.overload,
        certainty=value.certainty,
    )


def _dotted_start(code: StatementTokens, token: int) -> int:
    """Return the index of the first token of the dotted name that ends with ``token``."""
    while code.token_or_empty(token - 1) == "." and is_name(code.token_or_empty(token - 2)):
        token -= 2
    return token


# -- positions in statements ----------------------------------------------------------------------


def is_call(code: StatementTokens, opener: int) -> bool:
    """Whether an opening parenthesis begins the arguments of a call.

    ``opener`` is the token index of the parenthesis.
    """
    before = opener - 1
    if not code.ends_operand(before):
        return False
    return not (
        is_name(code.tokens[before]) and code.token_or_empty(before - 1) in ("def", "class")
    )


def is_definition_name(code: StatementTokens, token: int) -> bool:
    """Whether a token is the name that a ``def`` or ``class`` statement defines, or a parameter
    in it."""
    before = code.token_or_empty(token - 1)
    if before in ("def", "class"):
        return True
    opener = code.parent[token]
    return (
        opener >= 0
        and before in ("(", ",", "*", "**")
        and code.token_or_empty(opener - 2) == "def"
        and code.parent[opener] < 0
    )


def import_around(code: StatementTokens, token: int) -> int | None:
    """Return the index of ``import`` or ``from`` in the import statement around a token; None
    without one."""
    first = 0
    colon = suite_colon(code)
    if colon is not None and colon < token:
        first = colon + 1  # a suite on the same line, as in `try: import torch`
    return first if code.token_or_empty(first) in ("import", "from") else None


def imported_path(code: StatementTokens, first: int, token: int) -> str | None:
    """Return the path in torch that an import statement names up to a token.

    ``first`` is the index of ``import`` or ``from``. Returns None for paths outside of torch.
    """
    if code.tokens[first] == "from":
        imports = next((i for i in range(first, token) if code.tokens[i] == "import"), None)
        if imports is None:
            path = "".join(code.tokens[first + 1 : token + 1])
        else:
            name = token
            if code.token_or_empty(token - 1) == "as":
                name = token - 2
            module = "".join(code.tokens[first + 1 : imports])
            path = f"{module}.{code.token_or_empty(name)}"
    else:
        last = token - 2 if code.token_or_empty(token - 1) == "as" else token
        path = "".join(code.tokens[_dotted_start(code, last) : last + 1])
    return path if is_torch(path) else None
