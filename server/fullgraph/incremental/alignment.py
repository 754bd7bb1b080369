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
    pairs: list[tuple[int, int]] = []
    for one, other in same:
        if old[one].lines == new[other].lines:
            shift = new[other].first - old[one].first
            pairs += ((line, line + shift) for line in range(old[one].first, old[one].last + 1))
        else:
            lines = zip(_told(old[one]), _told(new[other]), strict=True)
            pairs += ((line.number, now.number) for line, now in lines)
    left = _with_code(old) - {one for one, _ in same}
    come = _with_code(new) - {other for _, other in same}
    used = [_used(old, left), _used(new, come)]
    return Alignment(_edits(pairs, *used), left, come, documented)


def same_code(before: ParsedText, after: Sequence[str]) -> tuple[Edit, ...] | None:
    """The edits from a text to one with these lines, if only comments and empty lines differ;
    None if more does. Reads no more than the statements around what differs."""
    old = before.lines
    most = min(len(old), len(after))
    head = next((n for n in range(most) if old[n] != after[n]), most)
    tail = next((n for n in range(most - head) if old[-1 - n] != after[-1 - n]), most - head)
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
    pairs = [(line.number, now.number) for line, now in zip(ours, theirs, strict=True)]
    return _edits([(first - 1, first - 1), *pairs, (last + 1, last_now + 1)], set(), set())


def _plainly(lines: Sequence[str]) -> list[str]:
    """Differs only where code does, and is found much faster."""
    parts = (line.partition("#")[0].rstrip() for line in lines)
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


def _edits(pairs: Sequence[tuple[int, int]], left: set[int], come: set[int]) -> tuple[Edit, ...]:
    """What lies between lines that correspond, the last first, so that none shifts another."""
    return tuple(reversed(list(_between(pairs, left, come))))


def _between(pairs: Sequence[tuple[int, int]], left: set[int], come: set[int]) -> Iterator[Edit]:
    line = now = -1
    for next_line, next_now in pairs:
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
        line, now = next_line, next_now
