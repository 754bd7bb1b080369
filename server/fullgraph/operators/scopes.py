"""Which names a text binds, and where: a best effort, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .text import Code, SourceText, TextPlace, is_name

_SUITES = frozenset(("if", "elif", "else", "try", "except", "finally", "while", "for", "with"))
_BINDING = frozenset(("import", "from", "async", "global", "nonlocal"))


@dataclass(frozen=True)
class Binding:
    """Something that gives a name its meaning.

    ``import``: ``path`` is the module's, or the module's and the imported name. ``value``: the
    words ``first`` to ``last`` of ``code`` are assigned. ``annotated``: they are the annotation.
    ``definition``: a function or class, of ``statement``. ``other``: anything else, such as a
    parameter without an annotation. ``weak``: a stand-in, in case that an import fails.
    """

    kind: Literal["import", "value", "annotated", "definition", "other"]
    offset: int
    path: str = ""
    code: Code | None = None
    first: int = 0
    last: int = -1
    statement: int = -1
    weak: bool = False


@dataclass(frozen=True)
class Scope:
    """``header`` is the statement that opens it, -1 for the module's.

    ``stars`` are the modules that it imports everything from.
    """

    kind: Literal["module", "function", "class"]
    header: int
    qualname: str
    bindings: Mapping[str, tuple[Binding, ...]]
    stars: tuple[str, ...] = ()


class Scopes:
    """The scopes of a text, each looked at when something in it is asked for."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._scopes: dict[int, Scope] = {}

    def around(self, place: TextPlace, word: int) -> tuple[Scope, ...]:
        """The scopes that a word of a place is in, from the module's to the innermost."""
        found = [self._scope(-1, None)]
        outer = place.outer
        statement = place.statement
        headers = self._headers(statement, place.column, bool(len(place.code)))
        if statement >= 0 and outer is None and len(place.code):
            colon = suite_colon(place.code)
            if self._opens(statement) and colon is not None and word > colon:
                headers.append(statement)
        for header in headers:
            found.append(self._scope(header, found[-1]))
        return tuple(found)

    def defines(self, leaf: str) -> bool:
        """Whether a function, a class or an attribute of ``self`` is called so in the text."""
        words = self.source.words
        for index in self.source.occurrences(leaf):
            before = words[index - 1] if index else ""
            if before in ("def", "class"):
                return True
            after = words[index + 1] if index + 1 < len(words) else ""
            if before == "." and after in ("=", ":") and words[index - 2] in ("self", "cls"):
                return True
        return False

    def name_of(self, header: int) -> str:
        """The name that a ``def`` or ``class`` statement defines."""
        words, first = self.source.words, self.source.firsts[header]
        at = first + 2 if words[first] == "async" else first + 1
        return words[at] if at < self.source.stops[header] else ""

    def bases(self, header: int) -> Iterator[tuple[Code, int, int]]:
        """The code, first and last word of each base in a ``class`` statement."""
        code = self.source.code(header)
        if code.word(0) == "class" and code.word(2) == "(":
            for first, last in parts(code, 3, code.closing(2), 2):
                if code.word(first + 1) != "=":
                    yield code, first, last

    def _opens(self, statement: int) -> bool:
        words, first = self.source.words, self.source.firsts[statement]
        word = words[first]
        return word in ("def", "class") or (
            word == "async" and first + 1 < len(words) and words[first + 1] == "def"
        )

    def _headers(self, statement: int, column: int, within: bool) -> list[int]:
        columns = self.source.columns
        found = []
        for index in range(statement - 1 if within else statement, -1, -1):
            if not column:
                break
            if columns[index] < column:
                column = columns[index]
                if self._opens(index):
                    found.append(index)
        return found[::-1]

    def _scope(self, header: int, outer: Scope | None) -> Scope:
        found = self._scopes.get(header)
        if found is None:
            found = self._scopes[header] = self._read(header, outer)
        return found

    def _read(self, header: int, outer: Scope | None) -> Scope:
        reading = _Reading(self, header)
        if header < 0 or outer is None:
            return Scope("module", -1, "", reading.found(), tuple(reading.stars))
        kind: Literal["function", "class"] = (
            "class" if self.source.words[self.source.firsts[header]] == "class" else "function"
        )
        qualname = self.name_of(header)
        if outer.kind == "class":
            qualname = f"{outer.qualname}.{qualname}"
        elif outer.kind == "function":
            qualname = f"{outer.qualname}.<locals>.{qualname}"
        return Scope(kind, header, qualname, reading.found(), tuple(reading.stars))


class _Reading:
    """Collects the bindings of one scope."""

    def __init__(self, scopes: Scopes, header: int) -> None:
        self.scopes = scopes
        self.source = scopes.source
        self.stars: list[str] = []
        self._bindings: dict[str, list[Binding]] = {}
        self._weak = False
        self._elsewhere: set[str] = set()
        column = -1
        if header >= 0:
            self._header(header)
            column = self.source.columns[header]
        self._block(header + 1, column)

    def found(self) -> dict[str, tuple[Binding, ...]]:
        return {
            name: tuple(bindings)
            for name, bindings in self._bindings.items()
            if name not in self._elsewhere
        }

    def _bind(self, name: str, binding: Binding) -> None:
        self._bindings.setdefault(name, []).append(binding)

    def _block(self, statement: int, column: int) -> None:
        source = self.source
        words, columns = source.words, source.columns
        walrus = ":=" in words
        stand_in: int | None = None  # the indentation of an `except` that is being read
        while statement < len(columns) and columns[statement] > column:
            first, stop = source.firsts[statement], source.stops[statement]
            word = words[first]
            if stand_in is not None and columns[statement] <= stand_in:
                stand_in = None
            self._weak = stand_in is not None
            if self.scopes._opens(statement):
                name = self.scopes.name_of(statement)
                self._bind(
                    name,
                    Binding(
                        "definition", source.starts[first], statement=statement, weak=self._weak
                    ),
                )
                inner = columns[statement]
                statement += 1
                while statement < len(columns) and columns[statement] > inner:
                    statement += 1
                continue
            if word == "except" and stand_in is None:
                stand_in = columns[statement]
            spelled = words[first:stop]
            if word in _SUITES:
                wanted = word in ("for", "with", "except") or spelled[-1] != ":"
            else:
                wanted = word in _BINDING or "=" in spelled or spelled[1:2] == [":"]
            if wanted or (walrus and ":=" in spelled):
                self._statement(source.code(statement))
            statement += 1

    def _statement(self, code: Code) -> None:
        first = 0
        if code.word(0) == "async":
            first = 1
        word = code.word(first)
        stop = len(code)
        for index in range(stop):
            if code.words[index] == ":=" and is_name(code.word(index - 1)):
                self._bind(
                    code.words[index - 1],
                    Binding("other", code.starts[index - 1], weak=self._weak),
                )
        if word in _SUITES:
            colon = suite_colon(code)
            end = stop if colon is None else colon
            if word == "for":
                inside = next(
                    (i for i in range(first, end) if code.words[i] == "in" and code.parent[i] < 0),
                    end,
                )
                self._targets(code, first + 1, inside)
            elif word in ("with", "except"):
                for index in range(first, end):
                    if code.words[index] == "as":
                        until = index + 1
                        if code.word(until) == "(":
                            until = code.closing(until)
                        self._targets(code, index + 1, until + 1)
            if colon is None or colon + 1 >= stop:
                return
            # `try: import torch`
            first = colon + 1
        self._simple(code, first, stop)

    def _simple(self, code: Code, first: int, stop: int) -> None:
        word = code.word(first)
        if word == "import":
            self._import(code, first, stop)
        elif word == "from":
            self._from(code, first, stop)
        elif word in ("global", "nonlocal"):
            self._elsewhere.update(w for w in code.words[first + 1 : stop] if is_name(w))
        else:
            self._assignment(code, first, stop)

    def _import(self, code: Code, first: int, stop: int) -> None:
        for begin, last in parts(code, first + 1, stop, -1):
            words = code.words[begin : last + 1]
            offset = code.starts[begin]
            if len(words) > 2 and words[-2] == "as":
                path = "".join(words[:-2])
                self._bind(words[-1], Binding("import", offset, path=path, weak=self._weak))
            elif is_name(words[0]):
                self._bind(words[0], Binding("import", offset, path=words[0], weak=self._weak))

    def _from(self, code: Code, first: int, stop: int) -> None:
        try:
            at = code.words.index("import", first, stop)
        except ValueError:
            return
        module = "".join(code.words[first + 1 : at])
        begin = at + 1
        bracket = code.parent[at]
        if code.word(begin) == "(":
            bracket, stop = begin, code.closing(begin)
            begin += 1
        for one, last in parts(code, begin, stop, bracket):
            words = code.words[one : last + 1]
            if words[0] == "*":
                self.stars.append(module)
                continue
            path = f"{module}.{words[0]}"
            name = words[-1] if len(words) > 2 and words[-2] == "as" else words[0]
            if is_name(name):
                self._bind(name, Binding("import", code.starts[one], path=path, weak=self._weak))

    def _assignment(self, code: Code, first: int, stop: int) -> None:
        top = [i for i in range(first, stop) if code.parent[i] < 0]
        equals = [i for i in top if code.words[i] == "="]
        if is_name(code.word(first)) and code.word(first + 1) == ":":
            last = (equals[0] if equals else stop) - 1
            self._bind(
                code.words[first],
                Binding("annotated", code.starts[first], "", code, first + 2, last),
            )
            return
        if not equals:
            return
        begin = first
        for equal in equals:
            if equal == begin + 1 and is_name(code.words[begin]):
                value = equals[-1] + 1
                weak = self._weak or (value == stop - 1 and code.words[value] == "None")
                self._bind(
                    code.words[begin],
                    Binding("value", code.starts[begin], "", code, value, stop - 1, weak=weak),
                )
            else:
                self._targets(code, begin, equal)
            begin = equal + 1

    def _targets(self, code: Code, first: int, stop: int) -> None:
        """Names that are bound by unpacking: not those with a dot or a subscript."""
        for index in range(first, min(stop, len(code))):
            before = code.word(index - 1) if index > first else ""
            after = code.word(index + 1)
            if (
                is_name(code.words[index])
                and before != "."
                and after not in (".", "[", "(")
                and not self._subscript(code, index, first)
            ):
                self._bind(code.words[index], Binding("other", code.starts[index], weak=self._weak))

    def _subscript(self, code: Code, index: int, first: int) -> bool:
        opener = code.parent[index]
        while opener >= first:
            if code.ends_operand(opener - 1) and opener - 1 >= first:
                return True
            opener = code.parent[opener]
        return False

    def _header(self, header: int) -> None:
        code = self.source.code(header)
        if code.word(0) == "class":
            return
        opener = next((i for i in range(len(code)) if code.words[i] == "("), None)
        if opener is None:
            return
        for first, last in parts(code, opener + 1, code.closing(opener), opener):
            while first < last and code.words[first] in ("*", "**"):
                first += 1
            name = code.words[first]
            if not is_name(name):
                continue
            if code.word(first + 1) == ":" and first + 2 <= last:
                equal = next(
                    (
                        i
                        for i in range(first, last + 1)
                        if code.words[i] == "=" and code.parent[i] == opener
                    ),
                    last + 1,
                )
                binding = Binding("annotated", code.starts[first], "", code, first + 2, equal - 1)
            else:
                binding = Binding("other", code.starts[first])
            self._bind(name, binding)


def parts(code: Code, first: int, stop: int, opener: int) -> Iterator[tuple[int, int]]:
    """First and last word of what commas separate inside a bracket; not the empty ones."""
    begin = first
    for end in (*commas(code, first, stop, opener), stop):
        if begin < end:
            yield begin, end - 1
        begin = end + 1


def commas(code: Code, first: int, stop: int, opener: int) -> Iterator[int]:
    """The commas inside a bracket. Those between a ``lambda`` and its colon separate nothing."""
    in_lambda = False
    for index in range(first, stop):
        if code.parent[index] == opener:
            word = code.words[index]
            if word == "lambda":
                in_lambda = True
            elif word == ":":
                in_lambda = False
            elif word == "," and not in_lambda:
                yield index


def suite_colon(code: Code) -> int | None:
    """The colon between the header of a compound statement and its suite."""
    in_lambda = False
    for index, word in enumerate(code.words):
        if code.parent[index] < 0:
            if word == "lambda":
                in_lambda = True
            elif word == ":":
                if not in_lambda:
                    return index
                in_lambda = False
    return None


def bound_inside(code: Code, word: int, name: str) -> bool:
    """Whether a comprehension or a lambda around a word binds a name."""
    around = {opener := code.parent[word]}
    while opener >= 0:
        around.add(opener := code.parent[opener])
    for index, spelled in enumerate(code.words):
        if spelled not in ("for", "lambda") or (opener := code.parent[index]) not in around:
            continue
        if spelled == "for":
            if opener < 0:
                continue  # a statement, whose targets outlive it
            for target in range(index + 1, len(code)):
                if code.words[target] == "in" and code.parent[target] == opener:
                    break
                if code.words[target] == name:
                    return True
        elif index < word and _lambda_binds(code, index, word, name):
            return True
    return False


def _lambda_binds(code: Code, index: int, word: int, name: str) -> bool:
    """Whether a word is in the body of a ``lambda`` that has a parameter of a name."""
    opener = code.parent[index]
    is_parameter = False
    for at in range(index + 1, word):
        if code.parent[at] != opener:
            continue
        spelled = code.words[at]
        if spelled == ":":
            return is_parameter and not any(
                code.words[i] == "," and code.parent[i] == opener for i in range(at, word)
            )
        if spelled == name and code.words[at - 1] in ("lambda", ",", "*", "**"):
            is_parameter = True
    return False
