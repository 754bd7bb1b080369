"""Find the scopes of a text and the names that they bind, also if the text has syntax errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .text import StatementTokens, TextPlace, TokenizedText, is_name

_SUITE_KEYWORDS = frozenset(
    ("if", "elif", "else", "try", "except", "finally", "while", "for", "with")
)
_BINDING_KEYWORDS = frozenset(("import", "from", "async", "global", "nonlocal"))


@dataclass(frozen=True)
class Binding:
    """A statement, or part of one, that binds a name at ``offset``.

    Kinds: ``import``: ``path`` is the imported module or member. ``value``: the tokens ``first`` to
    ``last`` of ``code`` are the assigned value. ``annotated``: these tokens are the annotation.
    ``definition``: the statement with the index ``statement`` defines a function or class.
    ``other``: any other binding, for example of a parameter without an annotation.
    """

    kind: Literal["import", "value", "annotated", "definition", "other"]
    offset: int
    path: str = ""
    code: StatementTokens | None = None
    first: int = 0
    last: int = -1
    statement: int = -1
    is_fallback: bool = False
    """True if the binding is in an ``except`` block or assigns None, so that it probably replaces a
    failed import."""


@dataclass(frozen=True)
class NameScope:
    """A module, function or class scope and the names that it binds."""

    kind: Literal["module", "function", "class"]
    header: int
    """Index of the ``def`` or ``class`` statement that opens the scope; -1 for the module."""
    qualname: str
    """Qualified name of the function or class, as its ``__qualname__``; empty for the module."""
    bindings: Mapping[str, tuple[Binding, ...]]
    stars: tuple[str, ...] = ()
    """Modules from which the scope imports ``*``."""


class ScopeFinder:
    """Finds the scopes around a token of a text; the bindings of a scope are collected when first
    needed."""

    def __init__(self, source: TokenizedText) -> None:
        self.source = source
        self._scopes: dict[int, NameScope] = {}

    def scopes_at(self, place: TextPlace, token: int) -> tuple[NameScope, ...]:
        """Return the scopes (module, classes, functions) around a token, outermost first."""
        found = [self._cached_scope(-1, None)]
        outer = place.outer
        statement = place.statement
        headers = self._enclosing_headers(statement, place.column, bool(len(place.code)))
        if statement >= 0 and outer is None and len(place.code):
            colon = suite_colon(place.code)
            if self.opens_scope(statement) and colon is not None and token > colon:
                headers.append(statement)
        for header in headers:
            found.append(self._cached_scope(header, found[-1]))
        return tuple(found)

    def defines_name(self, leaf: str) -> bool:
        """Whether the text defines a function, a class or an attribute of ``self`` with the name
        ``leaf``."""
        tokens = self.source.tokens
        for index in self.source.token_indices(leaf):
            before = tokens[index - 1] if index else ""
            if before in ("def", "class"):
                return True
            after = tokens[index + 1] if index + 1 < len(tokens) else ""
            if before == "." and after in ("=", ":") and tokens[index - 2] in ("self", "cls"):
                return True
        return False

    def defined_name(self, header: int) -> str:
        """Return the name that the ``def`` or ``class`` statement with the index ``header``
        defines."""
        tokens, first = self.source.tokens, self.source.firsts[header]
        at = first + 2 if tokens[first] == "async" else first + 1
        return tokens[at] if at < self.source.stops[header] else ""

    def base_classes(self, header: int) -> Iterator[tuple[StatementTokens, int, int]]:
        """Yield the bases of the ``class`` statement with the index ``header``.

        A base is given by the tokens of the statement and the indices of its first and last token.
        """
        code = self.source.statement_tokens(header)
        if code.token_or_empty(0) == "class" and code.token_or_empty(2) == "(":
            for first, last in comma_parts(code, 3, code.closing_index(2), 2):
                if code.token_or_empty(first + 1) != "=":
                    yield code, first, last

    def opens_scope(self, statement: int) -> bool:
        """Whether the statement with the index ``statement`` is a ``def`` or ``class``."""
        tokens, first = self.source.tokens, self.source.firsts[statement]
        token = tokens[first]
        return token in ("def", "class") or (
            token == "async" and first + 1 < len(tokens) and tokens[first + 1] == "def"
        )

    def _enclosing_headers(self, statement: int, column: int, within: bool) -> list[int]:
        columns = self.source.columns
        found = []
        for index in range(statement - 1 if within else statement, -1, -1):
            if not column:
                break
            if columns[index] < column:
                column = columns[index]
                if self.opens_scope(index):
                    found.append(index)
        return found[::-1]

    def _cached_scope(self, header: int, outer: NameScope | None) -> NameScope:
        found = self._scopes.get(header)
        if found is None:
            found = self._scopes[header] = self._read_scope(header, outer)
        return found

    def _read_scope(self, header: int, outer: NameScope | None) -> NameScope:
        reading = _BindingCollector(self, header)
        if header < 0 or outer is None:
            return NameScope("module", -1, "", reading.collected_bindings(), tuple(reading.stars))
        kind: Literal["function", "class"] = (
            "class" if self.source.tokens[self.source.firsts[header]] == "class" else "function"
        )
        qualname = self.defined_name(header)
        if outer.kind == "class":
            qualname = f"{outer.qualname}.{qualname}"
        elif outer.kind == "function":
            qualname = f"{outer.qualname}.<locals>.{qualname}"
        return NameScope(kind, header, qualname, reading.collected_bindings(), tuple(reading.stars))


class _BindingCollector:
    """Collects the name bindings of the scope that the statement with the index ``header`` opens.

    ``header`` is -1 for the module.
    """

    def __init__(self, scopes: ScopeFinder, header: int) -> None:
        self.scopes = scopes
        self.source = scopes.source
        self.stars: list[str] = []
        self._bindings: dict[str, list[Binding]] = {}
        self._in_fallback = False
        self._declared_outer: set[str] = set()
        column = -1
        if header >= 0:
            self._collect_parameters(header)
            column = self.source.columns[header]
        self._collect_block(header + 1, column)

    def collected_bindings(self) -> dict[str, tuple[Binding, ...]]:
        """Return the bindings by name, without names declared ``global`` or ``nonlocal``."""
        return {
            name: tuple(bindings)
            for name, bindings in self._bindings.items()
            if name not in self._declared_outer
        }

    def _add_binding(self, name: str, binding: Binding) -> None:
        self._bindings.setdefault(name, []).append(binding)

    def _collect_block(self, statement: int, column: int) -> None:
        source = self.source
        tokens, columns = source.tokens, source.columns
        walrus = ":=" in tokens
        except_column: int | None = None  # indentation of the `except` block that is being read
        while statement < len(columns) and columns[statement] > column:
            first, stop = source.firsts[statement], source.stops[statement]
            token = tokens[first]
            if except_column is not None and columns[statement] <= except_column:
                except_column = None
            self._in_fallback = except_column is not None
            if self.scopes.opens_scope(statement):
                name = self.scopes.defined_name(statement)
                self._add_binding(
                    name,
                    Binding(
                        "definition",
                        source.starts[first],
                        statement=statement,
                        is_fallback=self._in_fallback,
                    ),
                )
                inner = columns[statement]
                statement += 1
                while statement < len(columns) and columns[statement] > inner:
                    statement += 1
                continue
            if token == "except" and except_column is None:
                except_column = columns[statement]
            spelled = tokens[first:stop]
            if token in _SUITE_KEYWORDS:
                may_bind = token in ("for", "with", "except") or spelled[-1] != ":"
            else:
                may_bind = token in _BINDING_KEYWORDS or "=" in spelled or spelled[1:2] == [":"]
            if may_bind or (walrus and ":=" in spelled):
                self._collect_statement(source.statement_tokens(statement))
            statement += 1

    def _collect_statement(self, code: StatementTokens) -> None:
        first = 0
        if code.token_or_empty(0) == "async":
            first = 1
        token = code.token_or_empty(first)
        stop = len(code)
        for index in range(stop):
            if code.tokens[index] == ":=" and is_name(code.token_or_empty(index - 1)):
                self._add_binding(
                    code.tokens[index - 1],
                    Binding("other", code.starts[index - 1], is_fallback=self._in_fallback),
                )
        if token in _SUITE_KEYWORDS:
            colon = suite_colon(code)
            end = stop if colon is None else colon
            if token == "for":
                inside = next(
                    (i for i in range(first, end) if code.tokens[i] == "in" and code.parent[i] < 0),
                    end,
                )
                self._collect_targets(code, first + 1, inside)
            elif token in ("with", "except"):
                for index in range(first, end):
                    if code.tokens[index] == "as":
                        until = index + 1
                        if code.token_or_empty(until) == "(":
                            until = code.closing_index(until)
                        self._collect_targets(code, index + 1, until + 1)
            if colon is None or colon + 1 >= stop:
                return
            # a suite on the same line, as in `try: import torch`
            first = colon + 1
        self._collect_simple(code, first, stop)

    def _collect_simple(self, code: StatementTokens, first: int, stop: int) -> None:
        token = code.token_or_empty(first)
        if token == "import":
            self._collect_import(code, first, stop)
        elif token == "from":
            self._collect_from_import(code, first, stop)
        elif token in ("global", "nonlocal"):
            self._declared_outer.update(w for w in code.tokens[first + 1 : stop] if is_name(w))
        else:
            self._collect_assignment(code, first, stop)

    def _collect_import(self, code: StatementTokens, first: int, stop: int) -> None:
        for begin, last in comma_parts(code, first + 1, stop, -1):
            tokens = code.tokens[begin : last + 1]
            offset = code.starts[begin]
            if len(tokens) > 2 and tokens[-2] == "as":
                path = "".join(tokens[:-2])
                self._add_binding(
                    tokens[-1], Binding("import", offset, path=path, is_fallback=self._in_fallback)
                )
            elif is_name(tokens[0]):
                self._add_binding(
                    tokens[0],
                    Binding("import", offset, path=tokens[0], is_fallback=self._in_fallback),
                )

    def _collect_from_import(self, code: StatementTokens, first: int, stop: int) -> None:
        try:
            at = code.tokens.index("import", first, stop)
        except ValueError:
            return
        module = "".join(code.tokens[first + 1 : at])
        begin = at + 1
        bracket = code.parent[at]
        if code.token_or_empty(begin) == "(":
            bracket, stop = begin, code.closing_index(begin)
            begin += 1
        for start, last in comma_parts(code, begin, stop, bracket):
            tokens = code.tokens[start : last + 1]
            if tokens[0] == "*":
                self.stars.append(module)
                continue
            path = f"{module}.{tokens[0]}"
            name = tokens[-1] if len(tokens) > 2 and tokens[-2] == "as" else tokens[0]
            if is_name(name):
                self._add_binding(
                    name,
                    Binding("import", code.starts[start], path=path, is_fallback=self._in_fallback),
                )

    def _collect_assignment(self, code: StatementTokens, first: int, stop: int) -> None:
        top = [i for i in range(first, stop) if code.parent[i] < 0]
        equals = [i for i in top if code.tokens[i] == "="]
        if is_name(code.token_or_empty(first)) and code.token_or_empty(first + 1) == ":":
            last = (equals[0] if equals else stop) - 1
            self._add_binding(
                code.tokens[first],
                Binding("annotated", code.starts[first], "", code, first + 2, last),
            )
            return
        if not equals:
            return
        begin = first
        for equal in equals:
            if equal == begin + 1 and is_name(code.tokens[begin]):
                value = equals[-1] + 1
                is_fallback = self._in_fallback or (
                    value == stop - 1 and code.tokens[value] == "None"
                )
                self._add_binding(
                    code.tokens[begin],
                    Binding(
                        "value",
                        code.starts[begin],
                        "",
                        code,
                        value,
                        stop - 1,
                        is_fallback=is_fallback,
                    ),
                )
            else:
                self._collect_targets(code, begin, equal)
            begin = equal + 1

    def _collect_targets(self, code: StatementTokens, first: int, stop: int) -> None:
        """Record the names in assignment targets such as ``a, (b, c)``, but not attributes and
        subscripts.

        The targets are the tokens from ``first`` to before ``stop``.
        """
        for index in range(first, min(stop, len(code))):
            before = code.token_or_empty(index - 1) if index > first else ""
            after = code.token_or_empty(index + 1)
            if (
                is_name(code.tokens[index])
                and before != "."
                and after not in (".", "[", "(")
                and not self._is_in_subscript(code, index, first)
            ):
                self._add_binding(
                    code.tokens[index],
                    Binding("other", code.starts[index], is_fallback=self._in_fallback),
                )

    def _is_in_subscript(self, code: StatementTokens, index: int, first: int) -> bool:
        opener = code.parent[index]
        while opener >= first:
            if code.ends_operand(opener - 1) and opener - 1 >= first:
                return True
            opener = code.parent[opener]
        return False

    def _collect_parameters(self, header: int) -> None:
        code = self.source.statement_tokens(header)
        if code.token_or_empty(0) == "class":
            return
        opener = next((i for i in range(len(code)) if code.tokens[i] == "("), None)
        if opener is None:
            return
        for first, last in comma_parts(code, opener + 1, code.closing_index(opener), opener):
            while first < last and code.tokens[first] in ("*", "**"):
                first += 1
            name = code.tokens[first]
            if not is_name(name):
                continue
            if code.token_or_empty(first + 1) == ":" and first + 2 <= last:
                equal = next(
                    (
                        i
                        for i in range(first, last + 1)
                        if code.tokens[i] == "=" and code.parent[i] == opener
                    ),
                    last + 1,
                )
                binding = Binding("annotated", code.starts[first], "", code, first + 2, equal - 1)
            else:
                binding = Binding("other", code.starts[first])
            self._add_binding(name, binding)


def comma_parts(
    code: StatementTokens, first: int, stop: int, opener: int
) -> Iterator[tuple[int, int]]:
    """Yield the indices of the first and last token of each non-empty item between commas.

    The items are in the bracket ``opener`` (-1 outside of brackets), from token ``first`` to before
    ``stop``.
    """
    begin = first
    for end in (*separating_commas(code, first, stop, opener), stop):
        if begin < end:
            yield begin, end - 1
        begin = end + 1


def separating_commas(code: StatementTokens, first: int, stop: int, opener: int) -> Iterator[int]:
    """Yield the indices of the commas that separate the items of a bracket.

    Omits commas of ``lambda`` parameters. The items are in the bracket ``opener``, from token
    ``first`` to before ``stop``.
    """
    in_lambda = False
    for index in range(first, stop):
        if code.parent[index] == opener:
            token = code.tokens[index]
            if token == "lambda":
                in_lambda = True
            elif token == ":":
                in_lambda = False
            elif token == "," and not in_lambda:
                yield index


def suite_colon(code: StatementTokens) -> int | None:
    """Return the index of the colon after the header of a compound statement such as ``if``.

    The result is None without one.
    """
    in_lambda = False
    for index, token in enumerate(code.tokens):
        if code.parent[index] < 0:
            if token == "lambda":
                in_lambda = True
            elif token == ":":
                if not in_lambda:
                    return index
                in_lambda = False
    return None


def is_bound_inside(code: StatementTokens, token: int, name: str) -> bool:
    """Whether a comprehension or lambda around a token binds ``name``, so that it hides the
    variable ``name`` outside.
    """
    around = {opener := code.parent[token]}
    while opener >= 0:
        around.add(opener := code.parent[opener])
    for index, spelled in enumerate(code.tokens):
        if spelled not in ("for", "lambda") or (opener := code.parent[index]) not in around:
            continue
        if spelled == "for":
            if opener < 0:
                # A `for` outside brackets is a statement, which binds its targets in the enclosing
                # scope.
                continue
            for target in range(index + 1, len(code)):
                if code.tokens[target] == "in" and code.parent[target] == opener:
                    break
                if code.tokens[target] == name:
                    return True
        elif index < token and _lambda_binds(code, index, token, name):
            return True
    return False


def _lambda_binds(code: StatementTokens, index: int, token: int, name: str) -> bool:
    """Whether a token is in the body of the ``lambda`` at ``index``, which has a parameter
    ``name``."""
    opener = code.parent[index]
    is_parameter = False
    for at in range(index + 1, token):
        if code.parent[at] != opener:
            continue
        spelled = code.tokens[at]
        if spelled == ":":
            return is_parameter and not any(
                code.tokens[i] == "," and code.parent[i] == opener for i in range(at, token)
            )
        if spelled == name and code.tokens[at - 1] in ("lambda", ",", "*", "**"):
            is_parameter = True
    return False
