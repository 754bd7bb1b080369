"""The lines of a text that have code: what stands between and behind them changes no trace."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from fullgraph_engine.protocol.comments import IGNORE

_LAYOUT = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
_STRING_BEGINS = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "TSTRING_START", -1)
_STRING_ENDS = getattr(tokenize, "FSTRING_END", -1), getattr(tokenize, "TSTRING_END", -1)
_READ = re.compile(r"#.*\bfullgraph\b")
"""A comment that the engine may read."""


@dataclass(frozen=True)
class CodeLine:
    """One line that has code, counted from 0; ``code`` is without a comment behind it."""

    number: int
    code: str


def code_lines(lines: Sequence[str], first: int = 0) -> tuple[CodeLine, ...]:
    """Those of some whole statements, the first of which stands on line ``first`` of its text.

    Lines that follow a comment that is read count as code up to the next that has some: what
    stands between the two says whether the comment belongs to what follows.

    Raises:
        SyntaxError: they are not whole.
    """
    used: set[int] = set()
    inside: set[int] = set()
    """Lines whose ends are part of a string."""
    comments: dict[int, tuple[int, str]] = {}
    begins: list[int] = []
    reader = io.StringIO("\n".join(lines) + "\n", newline="\n").readline
    try:
        for token in tokenize.generate_tokens(reader):
            kind, start, end = token.type, token.start[0] - 1, token.end[0] - 1
            if kind == tokenize.COMMENT:
                comments[start] = token.start[1], token.string
            elif kind not in _LAYOUT:
                used.update(range(start, end + 1))
                inside.update(range(start, end))
            if kind in _STRING_BEGINS:
                begins.append(start)
            elif kind in _STRING_ENDS and begins:
                begun = begins.pop()
                used.update(range(begun, end + 1))
                inside.update(range(begun, end))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from error
    found: list[CodeLine] = []
    attached = False
    for number, line in enumerate(lines):
        at, comment = comments.get(number, (len(line), ""))
        is_read = bool(comment) and _READ.match(comment) and not IGNORE.match(comment)
        if number in used or is_read or attached:
            code = line if number in inside or is_read else line[:at].rstrip()
            if number not in used and comment and not is_read:
                code = "#"
            found.append(CodeLine(first + number, code))
        attached = bool(is_read) or (attached and number not in used)
    return tuple(found)
