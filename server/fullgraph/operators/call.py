"""The call that the cursor is in, and its arguments as far as they are typed."""

from __future__ import annotations

from dataclasses import dataclass

from .expressions import Expressions
from .index import OperatorIndex
from .scopes import commas
from .seen import NOTHING_SEEN, Seen
from .subject import Subject, is_call, subject_of
from .text import Code, is_name

_CALLABLE = ("function", "method", "class", "exception")


@dataclass(frozen=True)
class Argument:
    """``text`` is without the keyword or the star, and empty where only the comma was typed yet;
    ``start`` and ``end`` are with them."""

    start: int
    end: int
    keyword: str
    text: str
    star: bool


@dataclass(frozen=True)
class ActiveCall:
    """``arguments`` are all of the call, also those behind the cursor; ``active`` is the index of
    the one that the cursor is in, ``open`` the offset of the opening parenthesis."""

    subject: Subject
    arguments: tuple[Argument, ...]
    active: int
    open: int


def call_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> ActiveCall | None:
    """The innermost call around an offset, if what is called there is torch's."""
    expressions = Expressions(text, index, seen)
    place = expressions.source.place(offset)
    if place is None:
        return None
    code = place.code
    opener = code.bracket(offset)
    while opener >= 0 and not (code.words[opener] == "(" and is_call(code, opener)):
        opener = code.parent[opener]
    if opener < 0:
        return None
    subject = subject_of(expressions, place, opener - 1)
    if subject is None or (subject.name is not None and subject.name.kind not in _CALLABLE):
        return None
    arguments, active = _arguments(code, opener, offset)
    return ActiveCall(subject, arguments, active, code.starts[opener])


def _arguments(code: Code, opener: int, offset: int) -> tuple[tuple[Argument, ...], int]:
    """The arguments behind a bracket, and the index of the one at an offset."""
    stop = _stop(code, opener)
    ends = [*commas(code, opener + 1, stop, opener), stop]
    active = sum(code.starts[comma] < offset for comma in ends[:-1])
    arguments = []
    begin = opener + 1
    for at, end in enumerate(ends):
        if begin < end:
            arguments.append(_argument(code, begin, end - 1))
        elif at == active or end != stop:
            here = offset if at == active else code.end(begin - 1)
            arguments.append(Argument(here, here, "", "", False))
        begin = end + 1
    return tuple(arguments), active


def _argument(code: Code, first: int, last: int) -> Argument:
    value = first
    keyword = ""
    star = code.words[first] in ("*", "**")
    if star:
        value += 1
    elif code.words[first].isidentifier() and first < last and code.words[first + 1] == "=":
        keyword = code.words[first]
        value += 2
    text = code.text[code.starts[value] : code.end(last)] if value <= last else ""
    return Argument(code.starts[first], code.end(last), keyword, text, star)


def _stop(code: Code, opener: int) -> int:
    """The word behind the last argument, where the parenthesis is or should be."""
    stop = code.closing(opener)
    if opener in code.partner:
        return stop
    in_lambda = False
    for index in range(opener + 1, stop):
        if code.parent[index] == opener:
            word = code.words[index]
            if word == "lambda":
                in_lambda = True
            elif word == ":":
                if not in_lambda:
                    return index  # `if torch.any(x:`
                in_lambda = False
            elif is_name(word) and code.ends_operand(index - 1):
                return index  # another line, of which nothing separates this one
    return stop
