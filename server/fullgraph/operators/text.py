"""Python text as words and statements, whether or not it parses.

The whole text is cut into words by one regular expression, and into statements by brackets, line
ends and, where a bracket is never closed, indentation. All offsets are code points.
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

# Every character belongs to a word, blanks to the word before them: the lengths alone then give
# the offsets. The usual words come first.
_WORD = re.compile(
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
_CONTINUES = _CLOSERS | {",", ".", ":", "="}
_STRUCTURE = _NEWLINES | _OPENERS | _CLOSERS | {";"}

# Words that no bracket can hold: one at the start of a line ends whatever was left open above.
_STATEMENTS = frozenset(
    (
        "def", "class", "return", "import", "while", "with", "try", "except", "finally", "raise",
        "assert", "del", "pass", "break", "continue", "global", "nonlocal", "elif",
    )
)  # fmt: skip
_MAYBE_STATEMENTS = frozenset(("if", "for", "else", "async", "from"))

KEYWORDS = frozenset(keyword.kwlist)


_IN_STRING = (-1, -1)
"""For the span of an expression: in a string, but in none of its expressions."""


def is_name(word: str) -> bool:
    """Whether a word is an identifier and no keyword."""
    return word.isidentifier() and word not in KEYWORDS


def is_string(word: str) -> bool:
    """Whether a word is a string literal, with its prefix, or the beginning of an unclosed one."""
    return word[:1] != "#" and ('"' in word or "'" in word)


def indentation(blanks: str) -> int:
    """The column that blanks at the start of a line lead to."""
    return len(blanks.lstrip("\r\n").expandtabs(8))


class Code:
    """The words of one statement, or of an expression in a formatted string.

    Without comments and line ends. ``partner`` holds both brackets of a pair, ``parent`` is for
    every word the bracket that is open around it, -1 where there is none; that of a closing
    bracket is its opening one.
    """

    def __init__(self, text: str, words: Sequence[str], starts: Sequence[int]) -> None:
        self.text = text
        self.words: list[str] = []
        self.starts: list[int] = []
        for word, start in zip(words, starts, strict=False):
            if word and word[0] not in "#\\\r\n":
                self.words.append(word)
                self.starts.append(start)
        self.partner: dict[int, int] = {}
        self.parent: list[int] = []
        if self._pair(by_indentation=False):
            self._pair(by_indentation=True)

    def __len__(self) -> int:
        return len(self.words)

    def end(self, index: int) -> int:
        return self.starts[index] + len(self.words[index])

    def word(self, index: int) -> str:
        return self.words[index] if 0 <= index < len(self.words) else ""

    def before(self, offset: int) -> int:
        """The last word that starts before an offset, or -1."""
        return bisect_left(self.starts, offset) - 1

    def name_at(self, offset: int) -> int | None:
        """The word of letters that the offset is in, at the start of or right behind."""
        for index in (bisect_right(self.starts, offset) - 1, self.before(offset)):
            if (
                index >= 0
                and self.starts[index] <= offset <= self.end(index)
                and self.words[index].isidentifier()
            ):
                return index
        return None

    def bracket(self, offset: int) -> int:
        """The innermost bracket that is open at an offset, or -1."""
        index = self.before(offset)
        if index < 0:
            return -1
        word = self.words[index]
        if word in _OPENERS:
            return index
        if word in _CLOSERS and (opener := self.partner.get(index)) is not None:
            return self.parent[opener]
        return self.parent[index]

    def closing(self, opener: int) -> int:
        """The first word behind what a bracket holds: its partner, if it has one."""
        if (partner := self.partner.get(opener)) is not None:
            return partner
        for index in range(opener + 1, len(self.words)):
            if self.parent[index] < opener:
                return index
        return len(self.words)

    def ends_operand(self, index: int) -> bool:
        """Whether what follows (a dot, a bracket) belongs to an expression that ends here."""
        word = self.word(index)
        return bool(word) and (word in _CLOSERS or is_name(word) or is_string(word))

    def operand(self, last: int) -> int | None:
        """The first word of the operand, ``a.b(c)[d]``, that ends with a given one."""
        index = last
        while index >= 0:
            word = self.words[index]
            if word in _CLOSERS:
                opener = self.partner.get(index)
                if opener is None:
                    return None
                if word == "}" or not self.ends_operand(opener - 1):
                    return opener
                index = opener - 1
            elif self.word(index - 1) == "." and word.isidentifier():
                if not self.ends_operand(index - 2):
                    # `1.real` and `....x` are not names of anything.
                    return None
                index -= 2
            else:
                return index
        return None

    def _pair(self, *, by_indentation: bool) -> bool:
        """Pair the brackets; whether one was left open."""
        self.partner.clear()
        self.parent.clear()
        stack: list[int] = []
        left_open = False
        for index, word in enumerate(self.words):
            if word in _CLOSERS:
                found = self._opener(stack, index, by_indentation)
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
            if word in _OPENERS:
                stack.append(index)
        return left_open or bool(stack)

    def _opener(self, stack: list[int], closer: int, by_indentation: bool) -> int | None:
        same = [at for at, i in enumerate(stack) if self.words[i] == _PAIRS[self.words[closer]]]
        if by_indentation and len(same) > 1:
            # A bracket that closes at the start of a line closes what was opened by a line of
            # that indentation, not a call in between that is still being typed.
            column, first = self._line(closer)
            if first:
                for at in reversed(same):
                    if self._line(stack[at])[0] == column:
                        return at
        return same[-1] if same else None

    def _line(self, index: int) -> tuple[int, bool]:
        """The indentation of a word's line, and whether the word is the first in it."""
        start = self.starts[index]
        begin = max(self.text.rfind("\n", 0, start), self.text.rfind("\r", 0, start)) + 1
        before = self.text[begin:start]
        blanks = before[: len(before) - len(before.lstrip(_BLANK))]
        return indentation(blanks), len(blanks) == len(before)


@dataclass(frozen=True)
class TextPlace:
    """Where an offset is: in the code of a statement, or where one may begin (no words then).

    ``statement`` is the index of the statement, or of the last one before. For an expression in a
    formatted string ``outer`` is the place of the string.
    """

    code: Code
    statement: int
    column: int
    outer: TextPlace | None = None


class SourceText:
    """A text cut into words and statements.

    ``firsts`` and ``stops`` are the first word of each statement and the one behind its last,
    ``columns`` their indentation.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        raw = _WORD.findall(text)
        self.starts = list(accumulate(map(len, raw), initial=0))
        self.words = [word.rstrip(_BLANK) for word in raw]
        self._codes: dict[int, Code] = {}
        structure = [i for i, word in enumerate(self.words) if word in _STRUCTURE]
        self.firsts: list[int] = []
        self.stops: list[int] = []
        self.columns: list[int] = []
        if unclosed := self._split(structure, frozenset()):
            self._split(structure, unclosed)

    @classmethod
    def of(cls, text: str) -> SourceText:
        return _source(text)

    def code(self, statement: int) -> Code:
        found = self._codes.get(statement)
        if found is None:
            first, stop = self.firsts[statement], self.stops[statement]
            found = Code(self.text, self.words[first:stop], self.starts[first:stop])
            self._codes[statement] = found
        return found

    def statement_before(self, offset: int) -> int:
        """The last statement that starts at an offset or before, or -1."""
        word = bisect_right(self.starts, offset, hi=len(self.words)) - 1
        return bisect_right(self.firsts, word) - 1

    def place(self, offset: int) -> TextPlace | None:
        """Where an offset is; None in comments, in strings, and outside of the text."""
        if not 0 <= offset <= len(self.text):
            return None
        left = bisect_left(self.starts, offset, hi=len(self.words)) - 1
        # The word to the left decides: at its end one is still in a comment, not in a string.
        statement = bisect_right(self.firsts, left) - 1
        if left >= 0:
            word = self.words[left]
            if word[:1] == "#":
                return None
            if is_string(word) and (inside := self._in_string(left, offset)) is not None:
                outer = TextPlace(self.code(statement), statement, self.columns[statement])
                return self._formatted(inside, offset, outer)
        at_start = bisect_right(self.firsts, left + 1) - 1
        if at_start > statement and self.starts[left + 1] == offset:
            return TextPlace(self.code(at_start), at_start, self.columns[at_start])
        if statement < 0 or left >= self.stops[statement]:
            begin = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1
            return TextPlace(
                Code(self.text, (), ()), statement, indentation(self.text[begin:offset])
            )
        return TextPlace(self.code(statement), statement, self.columns[statement])

    def _formatted(self, span: tuple[int, int], offset: int, outer: TextPlace) -> TextPlace | None:
        """The place in an expression of a formatted string, which may be in another such one."""
        while span != _IN_STRING:
            begin = span[0]
            fragment = SourceText(self.text[begin : span[1]])
            left = bisect_left(fragment.starts, offset - begin, hi=len(fragment.words)) - 1
            inside = None
            if left >= 0 and is_string(fragment.words[left]):
                inside = fragment._in_string(left, offset - begin)
            if inside is None:
                starts = [begin + start for start in fragment.starts]
                code = Code(self.text, fragment.words, starts)
                return TextPlace(code, outer.statement, outer.column, outer)
            span = inside if inside == _IN_STRING else (begin + inside[0], begin + inside[1])
        return None

    def occurrences(self, word: str) -> Iterator[int]:
        """The indices of a word among all words."""
        index = -1
        while True:
            try:
                index = self.words.index(word, index + 1)
            except ValueError:
                return
            yield index

    def _in_string(self, index: int, offset: int) -> tuple[int, int] | None:
        """The span of the expression around an offset in a string's word: None behind its
        end."""
        word, start = self.words[index], self.starts[index]
        opening = _STRING.match(word)
        if opening is None:
            return None
        quote = opening[2]
        body = opening.end()
        closed = len(word) >= body + len(quote) and word.endswith(quote)
        if closed and offset >= start + len(word):
            return None
        if "f" in opening[1].lower() or "t" in opening[1].lower():
            stop = len(word) - len(quote) if closed else self.starts[index + 1] - start
            content = self.text[start : start + stop]
            for first, last in _expressions(content, body):
                if first <= offset - start <= last:
                    return start + first, start + last
        return _IN_STRING

    def _split(self, structure: list[int], unclosed: frozenset[int]) -> frozenset[int]:
        """Find the statements; the opening brackets that nothing closed.

        Those of a first round are given to a second one, where they hold only lines that are
        indented deeper than their own.
        """
        words = self.words
        firsts, stops, columns = self.firsts, self.stops, self.columns
        firsts.clear()
        stops.clear()
        columns.clear()
        stack: list[tuple[int, int]] = []  # the bracket, and the line end before its line
        lost: set[int] = set()
        line = -1
        column = 0
        if words:
            first = int(not words[0])
            column = self._column(0) if first else 0
            if first < len(words) and words[first] not in _NEWLINES and words[first][0] != "#":
                firsts.append(first)
                columns.append(column)
        for index in structure:
            word = words[index]
            if word in _OPENERS:
                stack.append((index, line))
            elif word in _CLOSERS:
                opener = _PAIRS[word]
                for at in range(len(stack) - 1, -1, -1):
                    if words[stack[at][0]] == opener:
                        lost.update(i for i, _ in stack[at + 1 :])
                        del stack[at:]
                        break
            elif word == ";":
                if not stack:
                    if len(stops) < len(firsts):
                        stops.append(index)
                    after = self._word(index + 1)
                    if after and after not in _NEWLINES and after[0] not in "#;":
                        firsts.append(index + 1)
                        columns.append(column)
            else:
                line = index
                after = self._word(index + 1)
                if not after or after in _NEWLINES or after[0] == "#":
                    if not stack and len(stops) < len(firsts):
                        stops.append(index)
                    continue
                if stack:
                    if self._starts_statement(index + 1, after):
                        lost.update(i for i, _ in stack)
                        stack.clear()
                    elif unclosed and after not in _CONTINUES:
                        self._dedent(stack, unclosed, self._column(index), lost)
                    if stack:
                        continue
                if len(stops) < len(firsts):
                    stops.append(index)
                firsts.append(index + 1)
                column = self._column(index)
                columns.append(column)
        if len(stops) < len(firsts):
            stops.append(len(words))
        lost.update(i for i, _ in stack)
        return frozenset(lost)

    def _dedent(
        self, stack: list[tuple[int, int]], unclosed: frozenset[int], column: int, lost: set[int]
    ) -> None:
        for at, (bracket, line) in enumerate(stack):
            if bracket in unclosed:
                opened = self._column(line) if line >= 0 else 0
                if column <= opened:
                    lost.update(i for i, _ in stack[at:])
                    del stack[at:]
                    return

    def _starts_statement(self, index: int, word: str) -> bool:
        if word in _STATEMENTS:
            return True
        if word not in _MAYBE_STATEMENTS:
            return False
        stop = index
        while stop < len(self.words) and self.words[stop] not in _NEWLINES:
            stop += 1
        rest = [w for w in self.words[index:stop] if w[:1] not in ("#", "")]
        if word == "from":
            return "import" in rest
        return (word == "async" and rest[1:2] == ["def"]) or rest[-1] == ":"

    def _column(self, newline: int) -> int:
        """The indentation of the line behind a line end: the blanks that belong to it."""
        return indentation(self.text[self.starts[newline] : self.starts[newline + 1]])

    def _word(self, index: int) -> str:
        return self.words[index] if index < len(self.words) else ""


def _expressions(content: str, index: int) -> Iterator[tuple[int, int]]:
    """The spans of the expressions in the braces of a formatted string, from an index on."""
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
def _source(text: str) -> SourceText:
    return SourceText(text)
