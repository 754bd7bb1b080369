"""Match the findings of two checks with each other, although lines move and messages change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Key = Callable[[T], Hashable]


@dataclass(frozen=True)
class Trait:
    """Properties by which a finding is recognized in another check.

    ``target`` is the traced function or class, ``text`` the source code at the finding as one line.
    """

    code: str
    message: str
    target: str
    text: str
    line: int


# Keys by which ``match_items`` pairs findings of two checks, strictest first. The last key ignores
# the source code: a target then has a new finding only if more of its findings have this code and
# message.
SAME: tuple[Key[Trait], ...] = (
    lambda trait: trait,
    lambda trait: (trait.code, trait.message, trait.text),
    lambda trait: (trait.code, trait.message, trait.target),
)


def match_items(
    before: Sequence[T],
    after: Sequence[T],
    keys: Iterable[Key[T]],
    *,
    paired: Mapping[int, int] | None = None,
    allow_surplus: bool = False,
) -> dict[int, int]:
    """Match items of ``before`` and ``after`` with equal keys; return the index in ``before`` by
    the index in ``after``.

    ``keys`` are functions that return the key of an item; they are tried in order on the still
    unmatched items. ``paired`` are pairs to keep from an earlier call. If ``after`` has more items
    with a key than ``before``, none of them is matched, because it is unknown which ones are new.
    With ``allow_surplus``, the first ones are matched.
    """
    pairs = dict(paired or {})
    for key in keys:
        before_by_key = _group_by_key(before, key, set(pairs.values()))
        for kind, numbers in _group_by_key(after, key, pairs.keys()).items():
            if allow_surplus or len(numbers) <= len(before_by_key[kind]):
                pairs.update(zip(numbers, before_by_key[kind], strict=False))
    return pairs


def _group_by_key(
    items: Sequence[T], key: Key[T], excluded: Iterable[int]
) -> defaultdict[Hashable, list[int]]:
    skipped = set(excluded)
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        if number not in skipped:
            groups[key(item)].append(number)
    return groups
