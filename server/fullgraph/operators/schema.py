"""The schema of an operator, read from its string: arguments, defaults, what aliases what.

    aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

Types keep torch's own notation (``SymInt[2]?``), without the alias sets that stand in them. An
alias set is a letter: arguments and results with the same letter may share memory, ``!`` says that
it is written to, ``*`` stands for anything.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass


class SchemaError(ValueError):
    """A string that is no schema; ``column`` counts code points from its start."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Alias:
    """What an argument or a result may share memory with.

    ``elements``: the sets are those of the tensors in a list, not of the list itself.
    ``after`` differs from ``before`` where the call moves it: ``a -> *``, ``a -> a|b``.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    write: bool = False
    elements: bool = False

    def shares(self, other: Alias) -> bool:
        return not set(self.after).isdisjoint(other.before)


@dataclass(frozen=True)
class Argument:
    """``default`` is as written; empty where the argument is required."""

    name: str
    type: str
    default: str = ""
    keyword_only: bool = False
    alias: Alias | None = None

    @property
    def written(self) -> bool:
        return self.alias is not None and self.alias.write


@dataclass(frozen=True)
class Result:
    """A result of an operator; ``name`` may be empty, ``alias`` is None if it aliases nothing."""

    type: str
    name: str = ""
    alias: Alias | None = None


@dataclass(frozen=True)
class Schema:
    """``open_arguments`` and ``open_results``: there may be more, written ``...``."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    open_arguments: bool = False
    open_results: bool = False

    @property
    def mutates(self) -> bool:
        return any(argument.written for argument in self.arguments)


@functools.lru_cache(maxsize=512)
def parse_schema(text: str) -> Schema:
    """Read a schema.

    Raises:
        SchemaError: it is none.
    """
    return _Reader(text).schema()


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<dots>\.\.\.)
      | (?P<arrow>->)
      | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?|-(?:inf|nan)\b)
      | (?P<name>[^\W\d]\w*(?:(?:\.|::)\w+)*)
      | (?P<sign>[()\[\],=?!*|])
    )""",
    re.VERBOSE,
)

# These take types in parentheses; behind any other name they hold an alias set.
_GENERIC = frozenset({"Dict", "Future", "Await", "RRef", "Union", "Tuple"})


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens = _tokens(text)

    def schema(self) -> Schema:
        name = self._take("name", "the name of an operator").text
        namespace, colons, rest = name.rpartition("::")
        operator, _, overload = rest.partition(".")
        arguments, open_arguments = self._arguments()
        self._expect("->")
        results, open_results = self._results()
        if self._now.kind != "end":
            raise self._wrong("the end of the schema")
        return Schema(
            namespace + colons + operator,
            overload,
            arguments,
            results,
            open_arguments,
            open_results,
        )

    # -- parts --------------------------------------------------------------------------------

    def _arguments(self) -> tuple[tuple[Argument, ...], bool]:
        self._expect("(")
        found: list[Argument] = []
        keyword_only = more = False
        while not self._accept(")"):
            if found or keyword_only or more:
                self._expect(",")
            if self._accept("..."):
                more = True
            elif self._accept("*"):
                keyword_only = True
            else:
                type_, alias = self._type()
                name = self._take("name", "the name of an argument").text
                default = ""
                if self._accept("["):
                    # The size of a list may stand behind its name.
                    type_ += f"[{self._take('number', 'a size').text}]"
                    self._expect("]")
                if self._accept("="):
                    default = self._value()
                found.append(Argument(name, type_, default, keyword_only, alias))
        return tuple(found), more

    def _results(self) -> tuple[tuple[Result, ...], bool]:
        if self._accept("..."):
            return (), True
        if not self._is("("):
            return (self._result(),), False
        start = self._at
        self._expect("(")
        found: list[Result] = []
        more = False
        while not self._accept(")"):
            if found or more:
                self._expect(",")
            if self._accept("..."):
                more = True
            else:
                found.append(self._result())
        if self._now.kind != "end":
            # It was a tuple, of which there is a list or an alias set.
            self._at = start
            return (self._result(),), False
        return tuple(found), more

    def _result(self) -> Result:
        type_, alias = self._type()
        name = self._next().text if self._now.kind == "name" else ""
        return Result(type_, name, alias)

    def _type(self) -> tuple[str, Alias | None]:
        alias: Alias | None = None
        if self._is("("):
            text = f"({self._types()})"
        else:
            text = self._take("name", "a type").text
            if text in _GENERIC and self._is("("):
                text += f"({self._types()})"
        while True:
            if self._accept("["):
                size = self._next().text if self._now.kind == "number" else ""
                self._expect("]")
                text += f"[{size}]"
                if alias is not None:
                    alias = Alias(alias.before, alias.after, alias.write, elements=True)
            elif self._accept("?"):
                text += "?"
            elif self._is("(") and alias is None:
                alias = self._alias()
            else:
                return text, alias

    def _types(self) -> str:
        self._expect("(")
        found: list[str] = []
        while not self._accept(")"):
            if found:
                self._expect(",")
            text, _ = self._type()
            # Fields of a tuple may have names.
            found.append(f"{text} {self._next().text}" if self._now.kind == "name" else text)
        return ", ".join(found)

    def _alias(self) -> Alias:
        self._expect("(")
        before = self._sets()
        write = self._accept("!")
        after = self._sets() if self._accept("->") else before
        self._expect(")")
        return Alias(before, after, write)

    def _sets(self) -> tuple[str, ...]:
        found: list[str] = []
        while True:
            if self._accept("*"):
                found.append("*")
            else:
                found.append(self._take("name", "an alias set, for example a").text)
            if not self._accept("|"):
                return tuple(found)

    def _value(self) -> str:
        token = self._next()
        if token.text != "[":
            if token.kind in ("string", "number", "name"):
                return token.text
            self._at -= 1
            raise self._wrong("a default")
        found: list[str] = []
        while not self._accept("]"):
            if found:
                self._expect(",")
            found.append(self._value())
        return f"[{', '.join(found)}]"

    # -- tokens -------------------------------------------------------------------------------

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._now
        if token.kind != "end":
            self._at += 1
        return token

    def _is(self, text: str) -> bool:
        return self._now.text == text and self._now.kind in ("sign", "arrow", "dots")

    def _accept(self, text: str) -> bool:
        if found := self._is(text):
            self._at += 1
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._wrong(f"`{text}`")

    def _take(self, kind: str, what: str) -> _Token:
        if self._now.kind != kind:
            raise self._wrong(what)
        return self._next()

    def _wrong(self, expected: str) -> SchemaError:
        token = self._now
        found = f"`{token.text}`" if token.text else "nothing"
        return SchemaError(f"Expected {expected}, found {found}.", token.start)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise SchemaError(f"`{text[at]}` has no meaning in a schema.", at)
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    found.append(_Token("end", "", end))
    return found
