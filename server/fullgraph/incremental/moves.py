"""Map source ranges of a file to a later version of it whose statements execute in the same way."""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

from fullgraph.incremental.statements import Statement
from fullgraph.incremental.tokens import Token
from fullgraph_engine.protocol import Position, Range

Kind = Literal["expression", "instruction", "place", "either"]
"""Kind of code that a source range covers, which decides how the range is moved.

``expression``: the range of an AST node. ``instruction``: the range of a bytecode instruction,
which is smaller than its AST node if an attribute is on another line than its object. ``place``: an
instruction, or the condition of a branch. ``either``: an expression or an instruction.
"""

_WHOLE = frozenset({"def", "async", "class", "@", "from", "import"})
"""First tokens of statements for which results refer to the first line only, such as ``def``."""
_FUNCTIONS_INSIDE = frozenset({"lambda", "for"})


_NEVER_FIRST = frozenset([*")]},.:=/%@<>|&^", "==", "!=", "<=", ">=", "//", "**", "->"])
_NEVER_LAST = frozenset([*"([{,.:=/%@<>|&^+-*~", "==", "!=", "<=", ">=", "//", "**", "->"])
"""Tokens that cannot be the last token of an expression."""


class LineLost(Exception):
    """Raised if a result of the earlier version refers to a source range that the later version
    lacks.

    Also raised if a result quotes changed code.
    """


class _MovedPart(Protocol):
    """Interface for a mapping of the source ranges in some consecutive lines to a later version of
    the file.
    """

    @property
    def is_formatted(self) -> bool:
        """Whether a formatter may have changed these lines.

        They have other line breaks, or other brackets and commas.
        """

    def move_line(self, line: int) -> int: ...

    def move_range(self, range_: Range, kind: Kind) -> Range: ...


@dataclass(frozen=True)
class Shifted:
    """A mapping of source ranges in unchanged lines that were only moved to other line numbers."""

    lines: int
    is_formatted: bool = False

    def move_line(self, line: int) -> int:
        return line + self.lines

    def move_range(self, range_: Range, kind: Kind) -> Range:
        start, end, lines = range_.start, range_.end, self.lines
        if not lines:
            return range_
        return Range(Position(start.line + lines, start.byte), Position(end.line + lines, end.byte))


class Rewritten:
    """A mapping of source ranges in a statement whose layout changed, but not its meaning."""

    def __init__(self, before: Statement, after: Statement, imported: frozenset[str]) -> None:
        self._before, self._after, self._imported = before, after, imported

    @cached_property
    def _pairs(self) -> tuple[tuple[Token, Token], ...]:
        """Pairs of equal tokens, one from the earlier and one from the later version of the
        statement.

        A formatter may add some tokens, such as brackets. Between two other tokens, they are paired
        only if both versions have the same ones.
        """
        return tuple(_pair_tokens(self._before.tokens, self._after.tokens))

    @cached_property
    def _code(self) -> tuple[tuple[Token, Token], ...]:
        return tuple(pair for pair in self._pairs if not pair[0].is_structure)

    @cached_property
    def _neighbors(self) -> tuple[tuple[Token, Token, Token, Token], ...]:
        """Pairs of adjacent tokens in a logical line. Each item also has the two matching tokens of
        the later version.
        """
        pairs = itertools.pairwise(self._pairs)
        return tuple(
            (one, then, other, then_now)
            for (one, other), (then, then_now) in pairs
            if not one.is_structure and not then.is_structure
        )

    @cached_property
    def is_formatted(self) -> bool:
        old, new = self._before.tokens, self._after.tokens
        if [token.text for token in old] != [token.text for token in new]:
            return True
        return any(
            _are_on_two_lines(one, then) != _are_on_two_lines(*now)
            for one, then, *now in self._neighbors
        )

    # -- lines --------------------------------------------------------------------------------

    def move_line(self, line: int) -> int:
        found = self._lines.get(line, ())
        if not found:
            raise LineLost(line)
        places = {there for _, there in found}
        texts = {token.text for token, _ in found}
        if len(places) > 1 and not (
            found[0][0].text in _WHOLE and _FUNCTIONS_INSIDE.isdisjoint(texts)
        ):
            raise LineLost(line)
        return found[0][1]

    @cached_property
    def _lines(self) -> Mapping[int, tuple[tuple[Token, int], ...]]:
        """Tokens of the statement by their line in the earlier version, each with its line in the
        later version.
        """
        found: dict[int, list[tuple[Token, int]]] = {}
        for one, other in self._code:
            last = one.end.line if one.text == other.text else one.start.line
            for line in range(one.start.line, last + 1):
                there = other.start.line + line - one.start.line
                found.setdefault(line, []).append((one, there))
        return {line: tuple(places) for line, places in found.items()}

    # -- ranges -------------------------------------------------------------------------------

    def move_range(self, range_: Range, kind: Kind) -> Range:
        if range_.start == range_.end:
            start = self._move_position(range_.start, end=False)
            return Range(start, start)
        if not self.is_formatted:
            start = self._move_position(range_.start, end=False)
            return Range(start, self._move_position(range_.end, end=True))
        found = self._nodes.get((range_, kind)) or self._between_tokens(range_)
        if len(found) != 1:
            raise LineLost(range_.start.line)
        return next(iter(found))

    def _move_position(self, place: Position, *, end: bool) -> Position:
        """Return the position in the later text of a position in the earlier text.

        The position must be inside a token, or at the beginning of a line. ``end`` is true if it is
        the end of a range.

        Raises:
            LineLost: The position does not have a counterpart.
        """
        bisected = bisect.bisect_left if end else bisect.bisect_right
        at = bisected(self._starts, place) - 1
        if at >= 0:
            one, other = self._code[at]
            if (place <= one.end if end else place < one.end) and one.text == other.text:
                return _position_within(one, other, place)
        if place.byte == 0:
            return Position(self.move_line(place.line), 0)
        raise LineLost(place.line)

    @cached_property
    def _starts(self) -> list[Position]:
        return [one.start for one, _ in self._code]

    def _between_tokens(self, range_: Range) -> set[Range]:
        """Return the new range of a token, a dotted name or a logical line, as a set.

        The set is empty for other ranges. A logical line is, for example, the header of a ``def``.
        """
        at = bisect.bisect_right(self._starts, range_.start) - 1
        if at < 0:
            return set()
        one, other = self._code[at]
        if range_.end <= one.end:
            if one.text == other.text:
                return {
                    Range(
                        _position_within(one, other, range_.start),
                        _position_within(one, other, range_.end),
                    )
                }
            whole = range_ == Range(one.start, one.end)
            return {Range(other.start, other.end)} if whole else set()
        last = bisect.bisect_left(self._starts, range_.end) - 1
        end, other_end = self._code[last]
        words = [token.text for token, _ in self._code[at : last + 1]]
        if all(word == "." or word.isidentifier() for word in words):
            whole = (one.start, end.end) == (range_.start, range_.end)
            return {Range(other.start, other_end.end)} if whole else set()
        logical = self._logical.get(range_)
        return {logical} if logical is not None else set()

    @cached_property
    def _logical(self) -> Mapping[Range, Range]:
        """Ranges of the statement's logical lines, without line ends; the values are their ranges
        in the later version.
        """
        found: dict[Range, Range] = {}
        first: tuple[Token, Token] | None = None
        last = first
        for pair in self._pairs:
            if not pair[0].is_structure:
                first, last = first or pair, pair
            elif pair[0].text == "\n":
                if first is not None and last is not None:
                    (one, other), (end, other_end) = first, last
                    found[Range(one.start, end.end)] = Range(other.start, other_end.end)
                first = last = None
        return found

    @cached_property
    def _nodes(self) -> Mapping[tuple[Range, Kind], set[Range]]:
        """New ranges of AST nodes, by their earlier range.

        There are several if nodes with the same range are moved apart.
        """
        found: dict[tuple[Range, Kind], set[Range]] = {}
        old, new = _SeenNodes(), _SeenNodes()
        for one, other in zip(self._before.described, self._after.described, strict=True):
            ranges = zip(self._node_ranges(one, old), self._node_ranges(other, new), strict=True)
            for (kind, place), (_, now) in ranges:
                found.setdefault((place, kind), set()).add(now)
                found.setdefault((place, "either"), set()).add(now)
        return found

    def _node_ranges(self, node: ast.AST, read: _SeenNodes) -> list[tuple[Kind, Range]]:
        """Return (kind, range) for an AST node, and for the bytecode instructions compiled from it.

        ``read`` collects the nodes whose ranges need special treatment.
        """
        place = _node_range(node)
        if place is None:
            return []
        if not isinstance(node, (ast.expr, ast.stmt)):
            return [("expression", place)]
        places = [place]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if _calls_method(node, self._imported):
                places = [_from_name(node.func, place)]
            else:
                read.called.add(id(node.func))
        elif isinstance(node, ast.Attribute):
            at_once = [place] if id(node) in read.called or _is_of_super(node) else []
            places = [*at_once, _from_name(node, place)]
        for name in _HEADERS:
            header = getattr(node, name, None)
            read.headers |= {id(header)} if isinstance(header, ast.expr) else set()
        if isinstance(node, (ast.With, ast.AsyncWith)):
            read.headers.add(id(node.items[0].context_expr))
        found: list[tuple[Kind, Range]] = [("expression", place)]
        for one in places:
            found += [("instruction", one), ("place", one)]
        return [*found, ("place", place)] if id(node) in read.headers else found

    # -- text ---------------------------------------------------------------------------------

    def rewritten_pieces(self) -> Iterator[str]:
        """Yield short pieces of the earlier code that the later version writes in another way."""
        for at, (one, then, other, then_now) in enumerate(self._neighbors):
            if not _are_on_two_lines(one, then):
                blanks = then.start.byte - one.end.byte
                if (
                    _are_on_two_lines(other, then_now)
                    or then_now.start.byte - other.end.byte != blanks
                ):
                    first, last = self._repeated_piece(at, apart=False)
                    yield self._source_text(first.start, last.end)
        yield from (one.text for one, other in self._code if one.text != other.text)

    def joined_pieces(self) -> Iterator[str]:
        """Yield pieces of code that were on several lines and are now on one line, without
        whitespace.
        """
        for at, (one, then, other, then_now) in enumerate(self._neighbors):
            if _are_on_two_lines(one, then) and not _are_on_two_lines(other, then_now):
                first, last = self._repeated_piece(at, apart=True)
                inside = (a for a, _ in self._code if first.start <= a.start <= last.start)
                yield "".join("".join(token.text.split()) for token in inside)

    def _repeated_piece(self, at: int, *, apart: bool) -> tuple[Token, Token]:
        """Return the first and last token of the expression that contains two adjacent tokens.

        ``at`` is the index of the two tokens in ``_neighbors``. Without ``apart``, the expression
        ends at a line break.
        """
        neighbors = self._neighbors
        piece = list(neighbors[at][:2])
        before, behind = at - 1, at + 1
        while before >= 0 and neighbors[before][1] is piece[0]:
            previous = neighbors[before][0]
            if not _goes_on_before(piece, previous) or (
                _are_on_two_lines(previous, piece[0]) and not apart
            ):
                break
            piece.insert(0, previous)
            before -= 1
        while behind < len(neighbors) and neighbors[behind][0] is piece[-1]:
            following = neighbors[behind][1]
            if not _goes_on_behind(piece) or (
                _are_on_two_lines(piece[-1], following) and not apart
            ):
                break
            piece.append(following)
            behind += 1
        return piece[0], piece[-1]

    def lines_gone(self) -> Iterator[str]:
        """Yield the lines, without indentation, that the later version does not contain any
        more.
        """
        now = {line.strip() for line in self._after.lines}
        yield from (text for line in self._before.lines if (text := line.strip()) not in now)

    def _source_text(self, start: Position, end: Position) -> str:
        line = self._before.lines[start.line - self._before.first]
        return line.encode(errors="surrogatepass")[start.byte : end.byte].decode(errors="replace")


def _pair_tokens(old: Sequence[Token], new: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    for between, between_now in zip(_token_groups(old), _token_groups(new), strict=True):
        optional, optional_now = between[:-1], between_now[:-1]
        if [token.text for token in optional] == [token.text for token in optional_now]:
            yield from zip(optional, optional_now, strict=True)
        yield from zip(between[-1:], between_now[-1:], strict=True)


def _token_groups(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield groups of tokens: each required token, after the optional tokens before it.

    The last group has the optional tokens at the end. A formatter may add optional tokens.
    """
    gap: list[Token] = []
    for token in tokens:
        gap.append(token)
        if not token.is_optional:
            yield gap
            gap = []
    if gap:
        yield gap


def _goes_on_before(piece: Sequence[Token], previous: Token) -> bool:
    """Whether the token ``previous`` and ``piece``, the tokens after it, are in one expression."""
    first = piece[0].text
    calls = first in ("(", "[") and (previous.text in (")", "]") or previous.text.isidentifier())
    return calls or first in _NEVER_FIRST or _has_unclosed_bracket(reversed(piece), ")]}", "([{")


def _goes_on_behind(piece: Sequence[Token]) -> bool:
    return piece[-1].text in _NEVER_LAST or _has_unclosed_bracket(piece, "([{", ")]}")


def _has_unclosed_bracket(tokens: Iterable[Token], begins: str, ends: str) -> bool:
    """Whether the bracket ``begins`` occurs in the tokens without the closing bracket ``ends``
    after it.
    """
    depth = 0
    for token in tokens:
        if len(token.text) == 1:
            depth = max(depth + (token.text in begins) - (token.text in ends), 0)
    return depth > 0


def _are_on_two_lines(one: Token, then: Token) -> bool:
    """Whether two adjacent tokens are on different lines."""
    return one.end.line != then.start.line


def _position_within(one: Token, other: Token, place: Position) -> Position:
    lines = place.line - one.start.line
    shift = other.start.byte - one.start.byte if not lines else 0
    return Position(other.start.line + lines, place.byte + shift)


_MOST_ARGUMENTS = 30
"""Number of arguments, including the object, at which Python no longer compiles a call as a method
call.
"""
_HEADERS = ("test", "iter", "subject")
"""AST fields with the condition or subject of a statement; findings about the statement refer to
their ranges.
"""


@dataclass
class _SeenNodes:
    """AST nodes whose ranges need special treatment, by their ``id()``.

    They are attributes called as plain functions, and conditions.
    """

    called: set[int] = field(default_factory=set)
    headers: set[int] = field(default_factory=set)


def _calls_method(node: ast.Call, imported: frozenset[str]) -> bool:
    """Whether Python compiles a call as a method call.

    It does not for functions of imported modules.
    """
    given = [*node.args, *node.keywords]
    base = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(base, ast.Name) and base.id in imported:
        return False
    return len(given) + 1 < _MOST_ARGUMENTS and not any(
        isinstance(one, ast.Starred) or (isinstance(one, ast.keyword) and one.arg is None)
        for one in given
    )


def _is_of_super(node: ast.Attribute) -> bool:
    """Whether an attribute is read from ``super()``, for which Python 3.12 and later have one
    instruction.
    """
    base = node.value
    return isinstance(base, ast.Call) and getattr(base.func, "id", "") == "super"


def _from_name(node: ast.Attribute, place: Range) -> Range:
    """Return the range of the bytecode instruction that reads an attribute.

    ``place`` is the range of the expression that reads or calls it. If the attribute's name is on
    another line than the object, the instruction's range begins at the name (Python 3.11 and
    later).
    """
    attribute = _node_range(node)
    if attribute is None or attribute.start.line == attribute.end.line:
        return place
    end = attribute.end
    return Range(Position(end.line, end.byte - len(node.attr)), place.end)


def _node_range(node: ast.AST) -> Range | None:
    places = (getattr(node, name, None) for name in _PLACES)
    line, column, end_line, end_column = places
    if line is None or column is None or end_line is None or end_column is None:
        return None
    return Range(Position(line - 1, column), Position(end_line - 1, end_column))


_PLACES = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Moves:
    """A mapping of lines and ranges of a file to a later version of it.

    ``parts`` are mapped groups of lines, ordered by first and last line; lines outside of them do
    not exist in the later version.
    """

    def __init__(self, parts: Sequence[tuple[int, int, _MovedPart]]) -> None:
        self._parts = tuple(parts)
        self._firsts = [first for first, _, _ in parts]

    @property
    def is_formatted(self) -> bool:
        return any(part.is_formatted for _, _, part in self._parts)

    @property
    def rewritten_parts(self) -> tuple[Rewritten, ...]:
        return tuple(part for _, _, part in self._parts if isinstance(part, Rewritten))

    def move_line(self, line: int) -> int:
        """Return the new number of a line.

        Raises:
            LineLost: The line was removed or split.
        """
        return self._find_part(line, line).move_line(line)

    def move_range(self, range_: Range, kind: Kind = "either") -> Range:
        """Return the new position of a source range; ``kind`` says what the range covers.

        Raises:
            LineLost: The range does not have a unique counterpart.
        """
        return self._find_part(range_.start.line, range_.end.line).move_range(range_, kind)

    def _find_part(self, first: int, last: int) -> _MovedPart:
        at = bisect.bisect_right(self._firsts, first) - 1
        if at < 0 or last > self._parts[at][1]:
            raise LineLost(first)
        return self._parts[at][2]
