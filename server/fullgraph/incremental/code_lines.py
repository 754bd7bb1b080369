"""The lines of a text that have code: what stands between and behind them changes no trace, nor do
the blanks in them."""

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
class Token:
    """What stands together on one line; columns are counted in characters from 0."""

    column: int
    text: str

    @property
    def end(self) -> int:
        return self.column + len(self.text)


@dataclass(frozen=True)
class CodeLine:
    """One line that has code, counted from 0; ``code`` is the same for two lines that differ in
    blanks alone, or in a comment behind it. ``tokens`` are what it consists of; none where each
    blank counts."""

    number: int
    code: str
    line: str
    tokens: tuple[Token, ...] = ()


def code_lines(lines: Sequence[str], first: int = 0) -> tuple[CodeLine, ...]:
    """Those of some whole statements, the first of which stands on line ``first`` of its text.

    Lines that follow a comment that is read count as code up to the next that has some: what
    stands between the two says whether the comment belongs to what follows.

    Raises:
        SyntaxError: they are not whole.
    """
    tokens: dict[int, list[Token]] = {}
    depths: dict[int, int] = {}
    """How far the statements that begin on lines are inside others."""
    depth = 0
    comments: dict[int, str] = {}
    begins: list[tuple[int, int]] = []
    reader = io.StringIO("\n".join(lines) + "\n", newline="\n").readline
    try:
        for token in tokenize.generate_tokens(reader):
            kind, start, end = token.type, token.start, token.end
            if kind == tokenize.COMMENT:
                comments[start[0] - 1] = token.string
            elif kind in _STRING_BEGINS:
                begins.append(start)
                continue
            elif kind in _STRING_ENDS and begins:
                start = begins.pop()
            depth += (kind == tokenize.INDENT) - (kind == tokenize.DEDENT)
            if kind in _LAYOUT or kind == tokenize.COMMENT or begins:
                continue
            depths.setdefault(start[0] - 1, depth)
            for number in range(start[0] - 1, end[0]):
                line = lines[number]
                column = start[1] if number == start[0] - 1 else 0
                last = end[1] if number == end[0] - 1 else len(line)
                tokens.setdefault(number, []).append(Token(column, line[column:last]))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from error
    found: list[CodeLine] = []
    attached = False
    for number, line in enumerate(lines):
        comment, own = comments.get(number, ""), tuple(tokens.get(number, ()))
        is_read = bool(comment) and _READ.match(comment) and not IGNORE.match(comment)
        if is_read:
            found.append(CodeLine(first + number, line, line))
        elif own:
            code = "\n".join([str(depths.get(number, "")), *(token.text for token in own)])
            found.append(CodeLine(first + number, code, line, own))
        elif attached:
            found.append(CodeLine(first + number, "#" if comment else "", line))
        attached = bool(is_read) or (attached and not own)
    return tuple(found)
