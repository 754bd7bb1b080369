"""Which lines of a text are the same code as which of an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from fullgraph.incremental.code_lines import CodeLine, code_lines
from fullgraph.incremental.statements import ParsedText, Statement
from fullgraph.session.edit_tracking import Edit
from fullgraph_engine.protocol import Position


@dataclass(frozen=True)
class Alignment:
    """How a text differs from an earlier one, statement by statement.

    ``edits`` turn places of the earlier one into places of the later one, applied in their order:
    exactly those in statements that are the same. The rest are numbers of statements.
    """

    edits: tuple[Edit, ...]
    changed_before: frozenset[int] = frozenset()
    """Of the earlier text, those that are changed or gone."""
    changed_after: frozenset[int] = frozenset()
    """Of the later one, those that are changed or new."""
    documented_before: frozenset[int] = frozenset()
    """Of those that are the same, the ones whose docstrings are not."""

    @property
    def is_same(self) -> bool:
        """Nothing that is executed differs, docstrings aside."""
        return not self.changed_before and not self.changed_after


def aligned(before: ParsedText, after: ParsedText) -> Alignment:
    """How the statements of two texts correspond.

    Raises:
        SyntaxError: one of them has a statement that cannot be read line by line.
    """
    old, new = before.statements, after.statements
    keys = _keys(before, after)
    same = [
        (block.a + shift, block.b + shift)
        for block in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
        for shift in range(block.size)
    ]
    documented = frozenset(
        one for one, other in same if _docstrings(old[one]) != _docstrings(new[other])
    )
    pairs: list[_Pair] = []
    for one, other in same:
        if old[one].lines == new[other].lines:
            shift = new[other].first - old[one].first
            numbers = range(old[one].first, old[one].last + 1)
            pairs += (_Pair(line, line + shift) for line in numbers)
        else:
            pairs += map(_pair, _told(old[one]), _told(new[other]))
    left = _with_code(old) - {one for one, _ in same}
    come = _with_code(new) - {other for _, other in same}
    used = [_used(old, left), _used(new, come)]
    return Alignment(_edits(pairs, *used), left, come, documented)


def same_code(before: ParsedText, after: Sequence[str]) -> tuple[Edit, ...] | None:
    """The edits from a text to one with these lines, if only comments, empty lines and blanks
    differ; None if more does. Reads no more than the statements around what differs."""
    old = before.lines
    head, tail = _around(old, after)
    if head == len(old) == len(after):
        return ()
    if _plainly(old[head : len(old) - tail]) != _plainly(after[head : len(after) - tail]):
        return None
    one, other = before.at(head), before.at(max(len(old) - tail - 1, head))
    first, last = before.statements[one].first, before.statements[other].last
    last_now = last + len(after) - len(old)
    try:
        ours = [line for part in before.statements[one : other + 1] for line in part.code]
        theirs = code_lines(after[first : last_now + 1], first)
    except SyntaxError:
        return None
    if [line.code for line in ours] != [line.code for line in theirs]:
        return None
    pairs = map(_pair, ours, theirs)
    ends = _Pair(first - 1, first - 1), _Pair(last + 1, last_now + 1)
    return _edits([ends[0], *pairs, ends[1]], set(), set())


def may_be_same_code(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether :func:`same_code` is worth asking, for which the text before has to be parsed."""
    head, tail = _around(before, after)
    changed = _plainly(before[head : len(before) - tail])
    return changed == _plainly(after[head : len(after) - tail])


def _around(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many of the rest at the end."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    tail = next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)
    return head, tail


def _plainly(lines: Sequence[str]) -> list[str]:
    """Differs only where code does, and is found much faster."""
    parts = ("".join(line.partition("#")[0].split()) for line in lines)
    return [part for part in parts if part]


def _keys(before: ParsedText, after: ParsedText) -> tuple[list[object], list[object]]:
    """Of equal statements equal ones. Few have to be read line by line."""
    whole = {part.lines for part in before.statements} & {part.lines for part in after.statements}

    def key(part: Statement) -> object:
        return part.lines if part.lines in whole else part.key

    return [key(part) for part in before.statements], [key(part) for part in after.statements]


def _with_code(parts: Sequence[Statement]) -> frozenset[int]:
    """Without what is no more than comments at the end of a text."""
    return frozenset(number for number, part in enumerate(parts) if part.nodes or part.key)


def _told(part: Statement) -> list[CodeLine]:
    return [line for line in part.code if line.number not in part.documented]


def _docstrings(part: Statement) -> list[str]:
    return [part.lines[number - part.first].strip() for number in sorted(part.documented)]


def _used(parts: Sequence[Statement], numbers: Iterable[int]) -> set[int]:
    """Lines of code of some statements."""
    return {line.number for number in numbers for line in parts[number].code}


@dataclass(frozen=True)
class _Pair:
    """A line, and the one that has the same code later. ``edits`` are of the blanks in it."""

    line: int
    now: int
    edits: tuple[Edit, ...] = ()


def _pair(line: CodeLine, now: CodeLine) -> _Pair:
    if line.line == now.line:
        return _Pair(line.number, now.number)
    edits = []
    end = end_now = 0
    before = ""
    for token, token_now in zip(line.tokens, now.tokens, strict=True):
        if token.column - end != token_now.column - end_now:
            edits.append(
                Edit(
                    Position(line.number, _bytes(line.line[:end])),
                    Position(line.number, _bytes(line.line[: token.column])),
                    Position(
                        line.number,
                        _bytes(line.line[:end]) + token_now.column - end_now,
                    ),
                    blank=True,
                    around=f"{before}{line.line[end : token.column]}{token.text}" if before else "",
                )
            )
        end, end_now, before = token.end, token_now.end, token.text
    return _Pair(line.number, now.number, tuple(edits))


def _bytes(text: str) -> int:
    return len(text.encode())


def _edits(pairs: Sequence[_Pair], left: set[int], come: set[int]) -> tuple[Edit, ...]:
    """What lies between lines that correspond, the last first, so that none shifts another."""
    return tuple(reversed(list(_between(pairs, left, come))))


def _between(pairs: Sequence[_Pair], left: set[int], come: set[int]) -> Iterator[Edit]:
    line = now = -1
    for pair in pairs:
        next_line, next_now = pair.line, pair.now
        gone, new = range(line + 1, next_line), range(now + 1, next_now)
        code = not left.isdisjoint(gone) or not come.isdisjoint(new)
        if code or len(gone) != len(new):
            start = line + 1
            yield Edit(
                Position(start, 0),
                Position(next_line, 0),
                Position(start + len(new), 0),
                blank=not code,
            )
        yield from pair.edits
        line, now = next_line, next_now
