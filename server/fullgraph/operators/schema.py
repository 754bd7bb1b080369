"""Parse the schema string of an operator into arguments, defaults and alias annotations.

    aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

Types keep torch's notation (``SymInt[2]?``), without their alias annotations. Arguments and results
with the same alias set, which is a letter, may share memory. ``!`` marks a tensor that the operator
mutates, and ``*`` means any alias set.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass


class SchemaError(ValueError):
    """A syntax error in an operator's schema, at the index ``column`` of the schema string."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class AliasInfo:
    """The alias annotation of an argument or result, for example ``(a! -> a|b)``."""

    before_set: tuple[str, ...]
    """Alias sets before the call."""
    after_set: tuple[str, ...]
    """Alias sets after the call; equal to ``before_set`` unless the annotation has an arrow."""
    is_write: bool = False
    """True if the call mutates the tensor."""
    of_elements: bool = False
    """True if the sets belong to the tensors in a list and not to the list itself."""

    def may_share_memory(self, other: AliasInfo) -> bool:
        """Whether the annotated value may share memory, after the call, with the value that
        ``other`` annotates."""
        return not set(self.after_set).isdisjoint(other.before_set)


@dataclass(frozen=True)
class SchemaArgument:
    """An argument in the schema of an operator."""

    name: str
    type: str
    """Type as written in the schema, without its alias annotation."""
    default: str = ""
    """Default as written in the schema; empty if the argument is required."""
    keyword_only: bool = False
    alias: AliasInfo | None = None
    """Alias annotation; None without one."""

    @property
    def is_written(self) -> bool:
        """Whether the operator mutates this argument."""
        return self.alias is not None and self.alias.is_write


@dataclass(frozen=True)
class SchemaResult:
    """A result in the schema of an operator; its name is empty if the schema does not give one."""

    type: str
    name: str = ""
    alias: AliasInfo | None = None
    """Alias annotation; None if the result does not share memory with an argument."""


@dataclass(frozen=True)
class Schema:
    """The parsed schema of an operator."""

    name: str
    """Qualified name without the overload, for example ``aten::max``."""
    overload: str
    """Name of the overload; empty for the default one."""
    arguments: tuple[SchemaArgument, ...]
    results: tuple[SchemaResult, ...]
    open_arguments: bool = False
    """True if the arguments end with ``...``: the operator accepts further ones."""
    open_results: bool = False
    """True if the results end with ``...``: the operator may return further ones."""

    @property
    def mutates(self) -> bool:
        """Whether the operator mutates any of its arguments."""
        return any(argument.is_written for argument in self.arguments)


@functools.lru_cache(maxsize=512)
def parse_schema(text: str) -> Schema:
    """Parse the schema of an operator, with its name; the last 512 results are cached.

    Raises:
        SchemaError: the text is not a valid schema.
    """
    return _SchemaParser(text).parse_schema()


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

# Types whose parameters are in parentheses, as in `Dict(str, int)`. After other types, parentheses
# contain an alias annotation.
_GENERIC_TYPES = frozenset({"Dict", "Future", "Await", "RRef", "Union", "Tuple"})


@dataclass(frozen=True)
class _SchemaToken:
    kind: str
    text: str
    start: int


class _SchemaParser:
    """A recursive-descent parser for the schema of one operator."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._tokens = _split_tokens(text)

    def parse_schema(self) -> Schema:
        name = self._take_kind("name", "the name of an operator").text
        namespace, colons, rest = name.rpartition("::")
        operator, _, overload = rest.partition(".")
        arguments, open_arguments = self._parse_arguments()
        self._expect_token("->")
        results, open_results = self._parse_results()
        if self._current.kind != "end":
            raise self._unexpected_token("the end of the schema")
        return Schema(
            namespace + colons + operator,
            overload,
            arguments,
            results,
            open_arguments,
            open_results,
        )

    # -- parts --------------------------------------------------------------------------------

    def _parse_arguments(self) -> tuple[tuple[SchemaArgument, ...], bool]:
        self._expect_token("(")
        found: list[SchemaArgument] = []
        keyword_only = more = False
        while not self._accept_token(")"):
            if found or keyword_only or more:
                self._expect_token(",")
            if self._accept_token("..."):
                more = True
            elif self._accept_token("*"):
                keyword_only = True
            else:
                type_, alias = self._parse_type()
                name = self._take_kind("name", "the name of an argument").text
                default = ""
                if self._accept_token("["):
                    # The size of a list may follow the argument's name.
                    type_ += f"[{self._take_kind('number', 'a size').text}]"
                    self._expect_token("]")
                if self._accept_token("="):
                    default = self._parse_default()
                found.append(SchemaArgument(name, type_, default, keyword_only, alias))
        return tuple(found), more

    def _parse_results(self) -> tuple[tuple[SchemaResult, ...], bool]:
        if self._accept_token("..."):
            return (), True
        if not self._is_at("("):
            return (self._parse_result(),), False
        start = self._position
        self._expect_token("(")
        found: list[SchemaResult] = []
        more = False
        while not self._accept_token(")"):
            if found or more:
                self._expect_token(",")
            if self._accept_token("..."):
                more = True
            else:
                found.append(self._parse_result())
        if self._current.kind != "end":
            # The parentheses belong to a tuple type, which is followed by `[]` or an alias
            # annotation.
            self._position = start
            return (self._parse_result(),), False
        return tuple(found), more

    def _parse_result(self) -> SchemaResult:
        type_, alias = self._parse_type()
        name = self._next_token().text if self._current.kind == "name" else ""
        return SchemaResult(type_, name, alias)

    def _parse_type(self) -> tuple[str, AliasInfo | None]:
        alias: AliasInfo | None = None
        if self._is_at("("):
            text = f"({self._parse_type_list()})"
        else:
            text = self._take_kind("name", "a type").text
            if text in _GENERIC_TYPES and self._is_at("("):
                text += f"({self._parse_type_list()})"
        while True:
            if self._accept_token("["):
                size = self._next_token().text if self._current.kind == "number" else ""
                self._expect_token("]")
                text += f"[{size}]"
                if alias is not None:
                    alias = AliasInfo(
                        alias.before_set, alias.after_set, alias.is_write, of_elements=True
                    )
            elif self._accept_token("?"):
                text += "?"
            elif self._is_at("(") and alias is None:
                alias = self._parse_alias()
            else:
                return text, alias

    def _parse_type_list(self) -> str:
        self._expect_token("(")
        found: list[str] = []
        while not self._accept_token(")"):
            if found:
                self._expect_token(",")
            text, _ = self._parse_type()
            found.append(
                f"{text} {self._next_token().text}" if self._current.kind == "name" else text
            )
        return ", ".join(found)

    def _parse_alias(self) -> AliasInfo:
        self._expect_token("(")
        before = self._parse_alias_sets()
        write = self._accept_token("!")
        after = self._parse_alias_sets() if self._accept_token("->") else before
        self._expect_token(")")
        return AliasInfo(before, after, write)

    def _parse_alias_sets(self) -> tuple[str, ...]:
        found: list[str] = []
        while True:
            if self._accept_token("*"):
                found.append("*")
            else:
                found.append(self._take_kind("name", "an alias set, for example a").text)
            if not self._accept_token("|"):
                return tuple(found)

    def _parse_default(self) -> str:
        token = self._next_token()
        if token.text != "[":
            if token.kind in ("string", "number", "name"):
                return token.text
            self._position -= 1
            raise self._unexpected_token("a default")
        found: list[str] = []
        while not self._accept_token("]"):
            if found:
                self._expect_token(",")
            found.append(self._parse_default())
        return f"[{', '.join(found)}]"

    # -- tokens -------------------------------------------------------------------------------

    @property
    def _current(self) -> _SchemaToken:
        return self._tokens[self._position]

    def _next_token(self) -> _SchemaToken:
        token = self._current
        if token.kind != "end":
            self._position += 1
        return token

    def _is_at(self, text: str) -> bool:
        return self._current.text == text and self._current.kind in ("sign", "arrow", "dots")

    def _accept_token(self, text: str) -> bool:
        if found := self._is_at(text):
            self._position += 1
        return found

    def _expect_token(self, text: str) -> None:
        if not self._accept_token(text):
            raise self._unexpected_token(f"`{text}`")

    def _take_kind(self, kind: str, what: str) -> _SchemaToken:
        if self._current.kind != kind:
            raise self._unexpected_token(what)
        return self._next_token()

    def _unexpected_token(self, expected: str) -> SchemaError:
        token = self._current
        found = f"`{token.text}`" if token.text else "nothing"
        return SchemaError(f"Expected {expected}, found {found}.", token.start)


def _split_tokens(text: str) -> list[_SchemaToken]:
    found: list[_SchemaToken] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise SchemaError(f"`{text[at]}` has no meaning in a schema.", at)
        kind = str(match.lastgroup)
        found.append(_SchemaToken(kind, match[kind], match.start(kind)))
        at = match.end()
    found.append(_SchemaToken("end", "", end))
    return found
