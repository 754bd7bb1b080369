"""The call that the cursor is in, and its arguments as far as they are typed."""

from __future__ import annotations

from dataclasses import dataclass

from .index import OperatorIndex
from .seen import Seen
from .subject import NOTHING_SEEN, Subject


@dataclass(frozen=True)
class Argument:
    """``text`` is without the keyword, and empty where only the comma was typed yet."""

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
    return None
