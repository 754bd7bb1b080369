"""Split Python text, which may have syntax errors, into tokens and statements.

One regular expression splits the text into tokens. Line ends outside of brackets separate
statements. If a bracket is never closed, its statement ends at a line without deeper indentation.
All offsets are code points.
"""

from __future__ import annotations

import functools
import keyword
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

_BLANK = " \t\f\ufeff"

# Every character belongs to a token, and blanks belong to the token before them, so that the
# lengths of the tokens give their offsets. Common tokens come first.
_TOKEN = re.compile(
    r"""(?:
    [^\W\d]\w*(?!["'\w])
  | [()\[\]{},.;]
  | \r?\n
  | =(?!=)
  | \#[^\r\n]*
  | [a-zA-Z]{0,2}(?:
        \"{3}(?:[^\\"]+|\\.|"(?!""))*(?:\"{3}|\\?\Z)
      | '{3}(?:[^\\']+|\\.|'(?!''))*(?:'{3}|\\?\Z)
      | "(?:[^\\"\r\n]+|\\(?:\r\n|.))*(?:"|(?=[\r\n])|\\?\Z)
      | '(?:[^\\'\r\n]+|\\(?:\r\n|.))*(?:'|(?=[\r\n])|\\?\Z)
    )
  | \w+
  | \\\r?\n
  | \*\*=?
  | //=?
  | ->
  | [-+*/%@&|^=<>!:]=
  | [ \t\f\ufeff]+
  | .
    )[ \t\f\ufeff]*""",
    re.VERBOSE | re.DOTALL,
)
_STRING = re.compile(r"([a-zA-Z]{0,2})(\"\"\"|'''|\"|')")

_NEWLINES = frozenset(("\n", "\r\n", "\r"))
_PAIRS = {")": "(", "]": "[", "}": "{"}
_OPENERS = frozenset(_PAIRS.values())
_CLOSERS = frozenset(_PAIRS)
_CONTINUATIONS = _CLOSERS | {",", ".", ":", "="}
_STRUCTURE = _NEWLINES | _OPENERS | _CLOSERS | {";"}

# Keywords that cannot occur inside a bracket. At the start of a line, such a keyword shows that the
# open brackets were never closed.
_STATEMENTS = frozenset(
    (
        "def", "class", "return", "import", "while", "with", "try", "except", "finally", "raise",
        "assert", "del", "pass", "break", "continue", "global", "nonlocal", "elif",
    )
)  # fmt: skip
_MAYBE_STATEMENTS = frozenset(("if", "for", "else", "async", "from"))

KEYWORDS = frozenset(keyword.kwlist)


_NO_EXPRESSION = (-1, -1)
"""Result of ``_span_in_string`` for an offset in a string, but not in an expression of a formatted
string.
"""


def is_name(token: str) -> bool:
    """Whether a token is an identifier and not a keyword."""
    return token.isidentifier() and token not in KEYWORDS


def is_string(token: str) -> bool:
    """Whether a token is a string literal, which may be unclosed."""
    return token[:1] != "#" and ('"' in token or "'" in token)


def is_dotted_name(tokens: Sequence[str]) -> bool:
    """Whether tokens are identifiers separated by dots, for example ``torch.nn``."""
    return len(tokens) % 2 == 1 and all(
        token == "." if index % 2 else token.isidentifier() for index, token in enumerate(tokens)
    )


def indentation_width(blanks: str) -> int:
    """Return the width of the blanks at the start of a line, where tabs extend to multiples of
    8."""
    return len(blanks.lstrip("\r\n").expandtabs(8))


class StatementTokens:
    """The tokens of one statement, or of an expression in a formatted string.

    Comments and line ends are omitted.
    """

    def __init__(self, text: str, tokens: Sequence[str], starts: Sequence[int]) -> None:
        self.text = text
        self.tokens: list[str] = []
        self.starts: list[int] = []
        for token, start in zip(tokens, starts, strict=False):
            if token and token[0] not in "#\\\r\n":
                self.tokens.append(token)
                self.starts.append(start)
        self.partner: dict[int, int] = {}
        """Index of the matching bracket, by the index of an opening or closing bracket."""
        self.parent: list[int] = []
        """Index of the innermost opening bracket around each token, or -1 outside of brackets. For
        a closing bracket, it is the matching opening bracket.
        """
        if self._pair_brackets(by_indentation=False):
            self._pair_brackets(by_indentation=True)

    def __len__(self) -> int:
        return len(self.tokens)

    def end_of(self, index: int) -> int:
        """Return the offset after the last character of the token at an index."""
        return self.starts[index] + len(self.tokens[index])

    def token_or_empty(self, index: int) -> str:
        """Return the token at an index; an empty string if the index is out of range."""
        return self.tokens[index] if 0 <= index < len(self.tokens) else ""

    def last_before(self, offset: int) -> int:
        """Return the index of the last token that starts before an offset, or -1."""
        return bisect_left(self.starts, offset) - 1

    def identifier_at(self, offset: int) -> int | None:
        """Return the index of the identifier that contains or touches an offset; None without
        one."""
        for index in (bisect_right(self.starts, offset) - 1, self.last_before(offset)):
            if (
                index >= 0
                and self.starts[index] <= offset <= self.end_of(index)
                and self.tokens[index].isidentifier()
            ):
                return index
        return None

    def bracket_at(self, offset: int) -> int:
        """Return the index of the innermost open bracket at an offset, or -1."""
        index = self.last_before(offset)
        if index < 0:
            return -1
        token = self.tokens[index]
        if token in _OPENERS:
            return index
        if token in _CLOSERS and (opener := self.partner.get(index)) is not None:
            return self.parent[opener]
        return self.parent[index]

    def closing_index(self, opener: int) -> int:
        """Return the index of the closing bracket of an opening one.

        If it is missing, returns the index of the first token outside of the bracket.
        """
        if (partner := self.partner.get(opener)) is not None:
            return partner
        for index in range(opener + 1, len(self.tokens)):
            if self.parent[index] < opener:
                return index
        return len(self.tokens)

    def ends_operand(self, index: int) -> bool:
        """Whether an operand can end at the token with the index ``index``, so that a dot or
        bracket after it continues the expression.
        """
        token = self.token_or_empty(index)
        return bool(token) and (token in _CLOSERS or is_name(token) or is_string(token))

    def operand_start(self, last: int) -> int | None:
        """Return the index of the first token of an operand such as ``a.b(c)[d]``.

        ``last`` is the index of its last token. Returns None if the operand is incomplete.
        """
        index = last
        while index >= 0:
            token = self.tokens[index]
            if token in _CLOSERS:
                opener = self.partner.get(index)
                if opener is None:
                    return None
                if token == "}" or not self.ends_operand(opener - 1):
                    return opener
                index = opener - 1
            elif self.token_or_empty(index - 1) == "." and token.isidentifier():
                if not self.ends_operand(index - 2):
                    # `1.real` and `....x` are not attributes of a name.
                    return None
                index -= 2
            else:
                return index
        return None

    def _pair_brackets(self, *, by_indentation: bool) -> bool:
        """Fill ``partner`` and ``parent``; return whether some opening bracket is never closed.

        With ``by_indentation``, a closing bracket at the start of a line is matched with an opening
        bracket in a line with the same indentation, if there are several candidates.
        """
        self.partner.clear()
        self.parent.clear()
        stack: list[int] = []
        left_open = False
        for index, token in enumerate(self.tokens):
            if token in _CLOSERS:
                found = self._find_opener(stack, index, by_indentation)
                if found is None:
                    self.parent.append(stack[-1] if stack else -1)
                    continue
                left_open |= found != len(stack) - 1
                opener = stack[found]
                del stack[found:]
                self.partner[opener] = index
                self.partner[index] = opener
                self.parent.append(opener)
                continue
            self.parent.append(stack[-1] if stack else -1)
            if token in _OPENERS:
                stack.append(index)
        return left_open or bool(stack)

    def _find_opener(self, stack: list[int], closer: int, by_indentation: bool) -> int | None:
        same = [at for at, i in enumerate(stack) if self.tokens[i] == _PAIRS[self.tokens[closer]]]
        if by_indentation and len(same) > 1:
            # A closing bracket at the start of a line matches an opening bracket of a line with the
            # same indentation, rather than the bracket of an incomplete call in between.
            column, first = self._line_start(closer)
            if first:
                for at in reversed(same):
                    if self._line_start(stack[at])[0] == column:
                        return at
        return same[-1] if same else None

    def _line_start(self, index: int) -> tuple[int, bool]:
        """Return the indentation of the line that contains a token, and whether the token is the
        first of its line.
        """
        start = self.starts[index]
        begin = max(self.text.rfind("\n", 0, start), self.text.rfind("\r", 0, start)) + 1
        before = self.text[begin:start]
        blanks = before[: len(before) - len(before.lstrip(_BLANK))]
        return indentation_width(blanks), len(blanks) == len(before)


@dataclass(frozen=True)
class TextPlace:
    """The statement that contains an offset, or the position where a new statement may begin."""

    code: StatementTokens
    """Tokens of the statement; empty where a new statement may begin."""
    statement: int
    """Index of the statement that contains the offset, or of the last statement before it."""
    column: int
    """Indentation of the statement, or of the line where a new statement may begin."""
    outer: TextPlace | None = None
    """Place of the formatted string whose expression contains the offset; None outside of formatted
    strings.
    """


class TokenizedText:
    """A text split into tokens and statements."""

    def __init__(self, text: str) -> None:
        self.text = text
        raw = _TOKEN.findall(text)
        self.starts = list(accumulate(map(len, raw), initial=0))
        self.tokens = [token.rstrip(_BLANK) for token in raw]
        self._codes: dict[int, StatementTokens] = {}
        structure = [i for i, token in enumerate(self.tokens) if token in _STRUCTURE]
        self.firsts: list[int] = []
        """Index of the first token of each statement."""
        self.stops: list[int] = []
        """Index after the last token of each statement."""
        self.columns: list[int] = []
        """Indentation of each statement."""
        if unclosed := self._split_statements(structure, frozenset()):
            self._split_statements(structure, unclosed)

    @classmethod
    def for_text(cls, text: str) -> TokenizedText:
        """Return the tokens and statements of a text; the last four results are cached."""
        return _cached_source(text)

    def statement_tokens(self, statement: int) -> StatementTokens:
        """Return the tokens of the statement with the index ``statement``."""
        found = self._codes.get(statement)
        if found is None:
            first, stop = self.firsts[statement], self.stops[statement]
            found = StatementTokens(self.text, self.tokens[first:stop], self.starts[first:stop])
            self._codes[statement] = found
        return found

    def statement_before(self, offset: int) -> int:
        """Return the index of the last statement that starts at or before an offset, or -1."""
        token = bisect_right(self.starts, offset, hi=len(self.tokens)) - 1
        return bisect_right(self.firsts, token) - 1

    def place_at(self, offset: int) -> TextPlace | None:
        """Return the statement around an offset, or the place where a new statement may begin.

        None in comments and strings, and outside of the text. An expression in a formatted string
        is treated like a statement.
        """
        if not 0 <= offset <= len(self.text):
            return None
        previous = bisect_left(self.starts, offset, hi=len(self.tokens)) - 1
        # The token left of the offset decides. An offset right after a comment still belongs to the
        # comment, an offset right after a string does not belong to the string.
        statement = bisect_right(self.firsts, previous) - 1
        if previous >= 0:
            token = self.tokens[previous]
            if token[:1] == "#":
                return None
            if is_string(token) and (inside := self._span_in_string(previous, offset)) is not None:
                outer = TextPlace(
                    self.statement_tokens(statement), statement, self.columns[statement]
                )
                return self._place_in_fstring(inside, offset, outer)
        at_start = bisect_right(self.firsts, previous + 1) - 1
        if at_start > statement and self.starts[previous + 1] == offset:
            return TextPlace(self.statement_tokens(at_start), at_start, self.columns[at_start])
        if statement < 0 or previous >= self.stops[statement]:
            begin = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1
            return TextPlace(
                StatementTokens(self.text, (), ()),
                statement,
                indentation_width(self.text[begin:offset]),
            )
        return TextPlace(self.statement_tokens(statement), statement, self.columns[statement])

    def _place_in_fstring(
        self, span: tuple[int, int], offset: int, outer: TextPlace
    ) -> TextPlace | None:
        """Return the place of an offset in the expression of a formatted string.

        ``span`` is the range of the expression, which may contain formatted strings itself. None if
        the offset is in a plain part of such an inner string.
        """
        while span != _NO_EXPRESSION:
            begin = span[0]
            fragment = TokenizedText(self.text[begin : span[1]])
            previous = bisect_left(fragment.starts, offset - begin, hi=len(fragment.tokens)) - 1
            inside = None
            if previous >= 0 and is_string(fragment.tokens[previous]):
                inside = fragment._span_in_string(previous, offset - begin)
            if inside is None:
                starts = [begin + start for start in fragment.starts]
                code = StatementTokens(self.text, fragment.tokens, starts)
                return TextPlace(code, outer.statement, outer.column, outer)
            span = inside if inside == _NO_EXPRESSION else (begin + inside[0], begin + inside[1])
        return None

    def token_indices(self, token: str) -> Iterator[int]:
        """Yield the indices of all tokens with this text."""
        index = -1
        while True:
            try:
                index = self.tokens.index(token, index + 1)
            except ValueError:
                return
            yield index

    def _span_in_string(self, index: int, offset: int) -> tuple[int, int] | None:
        """Return the start and end of the formatted string's expression around an offset.

        ``index`` is the token index of the string. Returns ``_NO_EXPRESSION`` in other parts of the
        string, and None after its end.
        """
        token, start = self.tokens[index], self.starts[index]
        opening = _STRING.match(token)
        if opening is None:
            return None
        quote = opening[2]
        body = opening.end()
        closed = len(token) >= body + len(quote) and token.endswith(quote)
        if closed and offset >= start + len(token):
            return None
        if "f" in opening[1].lower() or "t" in opening[1].lower():
            stop = len(token) - len(quote) if closed else self.starts[index + 1] - start
            content = self.text[start : start + stop]
            for first, last in _fstring_expressions(content, body):
                if first <= offset - start <= last:
                    return start + first, start + last
        return _NO_EXPRESSION

    def _split_statements(self, structure: list[int], unclosed: frozenset[int]) -> frozenset[int]:
        """Find the statements; return the indices of opening brackets without a closing one.

        ``structure`` are the indices of line ends, brackets and semicolons. ``unclosed`` is the
        result of a first pass: each of its brackets ends at the next line without deeper
        indentation than the line of the bracket.
        """
        tokens = self.tokens
        firsts, stops, columns = self.firsts, self.stops, self.columns
        firsts.clear()
        stops.clear()
        columns.clear()
        # Open brackets as pairs: token index of the bracket, token index of the line end before its
        # line.
        stack: list[tuple[int, int]] = []
        unclosed_brackets: set[int] = set()
        line = -1
        column = 0
        if tokens:
            first = int(not tokens[0])
            column = self._line_indentation(0) if first else 0
            if first < len(tokens) and tokens[first] not in _NEWLINES and tokens[first][0] != "#":
                firsts.append(first)
                columns.append(column)
        for index in structure:
            token = tokens[index]
            if token in _OPENERS:
                stack.append((index, line))
            elif token in _CLOSERS:
                opener = _PAIRS[token]
                for at in range(len(stack) - 1, -1, -1):
                    if tokens[stack[at][0]] == opener:
                        unclosed_brackets.update(i for i, _ in stack[at + 1 :])
                        del stack[at:]
                        break
            elif token == ";":
                if not stack:
                    if len(stops) < len(firsts):
                        stops.append(index)
                    after = self._token_or_empty(index + 1)
                    if after and after not in _NEWLINES and after[0] not in "#;":
                        firsts.append(index + 1)
                        columns.append(column)
            else:
                line = index
                after = self._token_or_empty(index + 1)
                if not after or after in _NEWLINES or after[0] == "#":
                    if not stack and len(stops) < len(firsts):
                        stops.append(index)
                    continue
                if stack:
                    if self._starts_statement(index + 1, after):
                        unclosed_brackets.update(i for i, _ in stack)
                        stack.clear()
                    elif unclosed and after not in _CONTINUATIONS:
                        self._close_dedented(
                            stack, unclosed, self._line_indentation(index), unclosed_brackets
                        )
                    if stack:
                        continue
                if len(stops) < len(firsts):
                    stops.append(index)
                firsts.append(index + 1)
                column = self._line_indentation(index)
                columns.append(column)
        if len(stops) < len(firsts):
            stops.append(len(tokens))
        unclosed_brackets.update(i for i, _ in stack)
        return frozenset(unclosed_brackets)

    def _close_dedented(
        self,
        stack: list[tuple[int, int]],
        unclosed: frozenset[int],
        column: int,
        unclosed_brackets: set[int],
    ) -> None:
        for at, (bracket, line) in enumerate(stack):
            if bracket in unclosed:
                opened = self._line_indentation(line) if line >= 0 else 0
                if column <= opened:
                    unclosed_brackets.update(i for i, _ in stack[at:])
                    del stack[at:]
                    return

    def _starts_statement(self, index: int, token: str) -> bool:
        if token in _STATEMENTS:
            return True
        if token not in _MAYBE_STATEMENTS:
            return False
        stop = index
        while stop < len(self.tokens) and self.tokens[stop] not in _NEWLINES:
            stop += 1
        rest = [w for w in self.tokens[index:stop] if w[:1] not in ("#", "")]
        if token == "from":
            return "import" in rest
        return (token == "async" and rest[1:2] == ["def"]) or rest[-1] == ":"

    def _line_indentation(self, newline: int) -> int:
        """Return the indentation of the line that begins after the line end with the token index
        ``newline``.
        """
        return indentation_width(self.text[self.starts[newline] : self.starts[newline + 1]])

    def _token_or_empty(self, index: int) -> str:
        return self.tokens[index] if index < len(self.tokens) else ""


def _fstring_expressions(content: str, index: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each expression in the braces of a formatted string.

    ``content`` is the source of the string, ``index`` the offset after its opening quote.
    """
    while (index := content.find("{", index)) >= 0:
        if content[index + 1 : index + 2] == "{":
            index += 2
            continue
        first = index = index + 1
        depth = 0
        while index < len(content):
            char = content[index]
            if char in "([{":
                depth += 1
            elif char in ")]}":
                if not depth:
                    break
                depth -= 1
            elif char in "\"'":
                closing = content.find(char, index + 1)
                index = closing if closing >= 0 else len(content)
            elif not depth and (char == ":" or (char == "!" and content[index + 1 :][:1] != "=")):
                break
            index += 1
        yield first, min(index, len(content))


@functools.lru_cache(maxsize=4)
def _cached_source(text: str) -> TokenizedText:
    return TokenizedText(text)
