"""Find the call of a torch function that contains the cursor, and the arguments typed so far."""

from __future__ import annotations

from dataclasses import dataclass

from .expressions import ExpressionEvaluator
from .index import OperatorIndex
from .scopes import separating_commas
from .seen import NOTHING_SEEN, Seen
from .subject import Subject, is_call, subject_of_token
from .text import StatementTokens, is_name

_CALLABLE = ("function", "method", "class", "exception")


@dataclass(frozen=True)
class CallArgument:
    """An argument of a call as typed so far; offsets are code points in the text."""

    start: int
    """Start offset of the argument, including its keyword or star."""
    end: int
    """End offset of the argument, after its last character."""
    keyword: str
    """Name of a keyword argument; empty for a positional argument."""
    text: str
    """Source of the value, without keyword and star; empty if nothing is typed yet."""
    star: bool
    """True if the argument starts with ``*`` or ``**``."""


@dataclass(frozen=True)
class ActiveCall:
    """The innermost call around the cursor."""

    subject: Subject
    """Called function, class or operator of torch."""
    arguments: tuple[CallArgument, ...]
    """All arguments of the call, including those after the cursor."""
    active: int
    """Index of the argument that contains the cursor."""
    open: int
    """Start offset of the opening parenthesis."""


def call_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> ActiveCall | None:
    """Return the innermost call around an offset, if it calls a name of torch; else None.

    ``seen`` are the types of expressions that the last trace of the text recorded.
    """
    expressions = ExpressionEvaluator(text, index, seen)
    place = expressions.source.place_at(offset)
    if place is None:
        return None
    code = place.code
    opener = code.bracket_at(offset)
    while opener >= 0 and not (code.tokens[opener] == "(" and is_call(code, opener)):
        opener = code.parent[opener]
    if opener < 0:
        return None
    subject = subject_of_token(expressions, place, opener - 1)
    if subject is None or (subject.name is not None and subject.name.kind not in _CALLABLE):
        return None
    arguments, active = _parse_arguments(code, opener, offset)
    return ActiveCall(subject, arguments, active, code.starts[opener])


def _parse_arguments(
    code: StatementTokens, opener: int, offset: int
) -> tuple[tuple[CallArgument, ...], int]:
    """Return the arguments of a call, and the index of the argument at an offset.

    ``opener`` is the token index of the call's opening parenthesis.
    """
    stop = _arguments_end(code, opener)
    ends = [*separating_commas(code, opener + 1, stop, opener), stop]
    active = sum(code.starts[comma] < offset for comma in ends[:-1])
    arguments = []
    begin = opener + 1
    for at, end in enumerate(ends):
        if begin < end:
            arguments.append(_parse_argument(code, begin, end - 1))
        elif at == active or end != stop:
            position = offset if at == active else code.end_of(begin - 1)
            arguments.append(CallArgument(position, position, "", "", False))
        begin = end + 1
    return tuple(arguments), active


def _parse_argument(code: StatementTokens, first: int, last: int) -> CallArgument:
    value = first
    keyword = ""
    star = code.tokens[first] in ("*", "**")
    if star:
        value += 1
    elif code.tokens[first].isidentifier() and first < last and code.tokens[first + 1] == "=":
        keyword = code.tokens[first]
        value += 2
    text = code.text[code.starts[value] : code.end_of(last)] if value <= last else ""
    return CallArgument(code.starts[first], code.end_of(last), keyword, text, star)


def _arguments_end(code: StatementTokens, opener: int) -> int:
    """Return the index of the first token after the arguments of a call.

    This is the closing parenthesis. If it is missing, it is the first token that cannot belong to
    the arguments. ``opener`` is the index of the opening parenthesis.
    """
    stop = code.closing_index(opener)
    if opener in code.partner:
        return stop
    in_lambda = False
    for index in range(opener + 1, stop):
        if code.parent[index] == opener:
            token = code.tokens[index]
            if token == "lambda":
                in_lambda = True
            elif token == ":":
                if not in_lambda:
                    return index  # the parenthesis is missing, as in `if torch.any(x:`
                in_lambda = False
            elif is_name(token) and code.ends_operand(index - 1):
                return index  # two operands without an operator: the second is on the next line
    return stop
