"""Match findings of two checks, although lines move and messages change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Key = Callable[[T], Hashable]


@dataclass(frozen=True)
class Trait:
    """Properties by which a finding is recognized; ``text`` is its source code as one line."""

    code: str
    message: str
    target: str
    text: str
    line: int


# Keys for matching, from exact to loose. With the last key, a target only has new findings of one
# code and message if it has more of them than before.
SAME: tuple[Key[Trait], ...] = (
    lambda trait: trait,
    lambda trait: (trait.code, trait.message, trait.text),
    lambda trait: (trait.code, trait.message, trait.target),
)


def match_items(
    before: Sequence[T],
    now: Sequence[T],
    keys: Iterable[Key[T]],
    *,
    paired: Mapping[int, int] | None = None,
    partly: bool = False,
) -> dict[int, int]:
    """Match items of ``now`` to items of ``before``; return the index in ``before`` for indices in
    ``now``.

    Keys are tried in order on items that are not ``paired`` yet. If ``now`` has more items with the
    same key, all of them stay unmatched, because nothing tells which ones are new. With ``partly``,
    only the surplus stays unmatched.
    """
    pairs = dict(paired or {})
    for key in keys:
        had = _group_by_key(before, key, set(pairs.values()))
        for kind, numbers in _group_by_key(now, key, pairs.keys()).items():
            if partly or len(numbers) <= len(had[kind]):
                pairs.update(zip(numbers, had[kind], strict=False))
    return pairs


def _group_by_key(
    items: Sequence[T], key: Key[T], without: Iterable[int]
) -> defaultdict[Hashable, list[int]]:
    done = set(without)
    kinds: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        if number not in done:
            kinds[key(item)].append(number)
    return kinds
