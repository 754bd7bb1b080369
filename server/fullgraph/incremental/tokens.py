"""Tokens of statements without comments, blanks and line breaks, which do not affect a trace."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fullgraph_engine.protocol import Position
from fullgraph_engine.protocol.comments import IGNORE

OPTIONAL = frozenset({"(", ")", ","})
"""Tokens that a formatter may add or remove: brackets around an expression and trailing commas."""

_STRUCTURE = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\t", tokenize.DEDENT: "\b"}
"""Texts that represent the tokens for the end of a statement and for the indentation of blocks."""
_LEFT_OUT = frozenset({tokenize.NL, tokenize.ENDMARKER})
_STRING_BEGINS = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "TSTRING_START", -1)
_STRING_ENDS = getattr(tokenize, "FSTRING_END", -1), getattr(tokenize, "TSTRING_END", -1)
_READ = re.compile(r"#.*\bfullgraph\b")
"""Pattern of a comment that mentions fullgraph: the engine may read inputs or settings from it."""
_QUOTES = re.compile(r"[\s'\"]+")


@dataclass(frozen=True)
class Token:
    """A token and its position; adjacent strings form one token.

    ``key`` is equal for tokens with the same meaning, such as strings with different quotes and
    numbers in different notation.
    """

    start: Position
    end: Position
    text: str
    key: str

    @property
    def is_structure(self) -> bool:
        return self.start == self.end

    @property
    def is_optional(self) -> bool:
        return self.text in OPTIONAL


def tokens_of(lines: Sequence[str], first: int = 0) -> tuple[Token, ...]:
    """Split complete statements into tokens, without comments and layout.

    ``first`` is the number of the first line. A comment for this project (``# fullgraph: …``) is
    kept as a token with its whole line. The lines between it and the next code are kept as well,
    because they decide whether the comment belongs to this code.

    Raises:
        SyntaxError: A statement is incomplete.
    """
    try:
        return tuple(_join_strings(_with_positions(_raw_tokens(lines), lines, first)))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from error


_Place = tuple[int, int]
"""Line number from 0, relative to the given lines, and index of the character in the line."""
_Raw = tuple[int, str, _Place, _Place]


def _raw_tokens(lines: Sequence[str]) -> Iterator[_Raw]:
    """Yield the tokens of Python's tokenizer, without those for layout.

    An f-string with its contents is one token.
    """
    reader = io.StringIO("\n".join(lines) + "\n", newline="\n").readline
    begins: list[_Place] = []
    attached = False
    next_line = 0
    for token in tokenize.generate_tokens(reader):
        kind, text = token.type, token.string
        start, end = (token.start[0] - 1, token.start[1]), (token.end[0] - 1, token.end[1])
        if kind == tokenize.COMMENT:
            if _READ.match(text) and not IGNORE.match(text):
                yield kind, lines[start[0]], start, end
                attached = True
            elif attached:
                yield kind, "#", start, end
            next_line = start[0] + 1
            continue
        if kind == tokenize.NL and attached and start[0] >= next_line:
            yield kind, "", start, start
        if kind in _LEFT_OUT:
            continue
        if kind in _STRUCTURE:
            yield kind, _STRUCTURE[kind], start, start
            continue
        if kind in _STRING_BEGINS:
            begins.append(start)
            continue
        if kind in _STRING_ENDS and begins:
            start = begins.pop()
            kind = tokenize.STRING
            text = _text_between(lines, start, end)
        if begins:
            continue
        attached = False
        next_line = end[0] + 1
        yield kind, text, start, end


def _text_between(lines: Sequence[str], start: _Place, end: _Place) -> str:
    (first, column), (last, end_column) = start, end
    if first == last:
        return lines[first][column:end_column]
    inner = lines[first + 1 : last]
    return "\n".join([lines[first][column:], *inner, lines[last][:end_column]])


def _with_positions(
    raw: Iterable[_Raw], lines: Sequence[str], first: int
) -> Iterator[tuple[bool, Token]]:
    """Yield (is_string, token) for each raw token; the token has its position in bytes.

    ``first`` is the number of the first line in the file.
    """
    for kind, text, start, end in raw:
        places = [
            Position(
                first + line,
                column if _is_ascii_line(lines, line) else _byte_offset(lines[line], column),
            )
            for line, column in (start, end)
        ]
        is_string = kind == tokenize.STRING
        yield is_string, Token(places[0], places[1], text, _token_key(kind, text))


def _is_ascii_line(lines: Sequence[str], line: int) -> bool:
    return line >= len(lines) or lines[line].isascii()


def _byte_offset(line: str, column: int) -> int:
    return len(line[:column].encode(errors="surrogatepass"))


def _join_strings(tokens: Iterable[tuple[bool, Token]]) -> Iterator[Token]:
    """Join adjacent strings to one token."""
    strings: list[Token] = []
    for is_string, token in tokens:
        if is_string:
            strings.append(token)
            continue
        if strings:
            yield _join_token(strings)
            strings = []
        yield token
    if strings:
        yield _join_token(strings)


def _join_token(strings: Sequence[Token]) -> Token:
    if len(strings) == 1:
        return strings[0]
    text = " ".join(string.text for string in strings)
    return Token(strings[0].start, strings[-1].end, text, _string_key(text))


def _token_key(kind: int, text: str) -> str:
    if kind == tokenize.STRING:
        return _string_key(text)
    return text.lower() if kind == tokenize.NUMBER else text


@functools.lru_cache(maxsize=4096)
def _string_key(text: str) -> str:
    """Return the value of a string literal; strings with other quotes have the same value.

    For f-strings it is the source without quotes and blanks.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(ast.literal_eval(f"({text})"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _QUOTES.sub("", text)
