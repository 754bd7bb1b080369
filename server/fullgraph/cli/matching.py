"""What of one check is the same thing in another one, although lines move and words change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Key = Callable[[T], Hashable]


@dataclass(frozen=True)
class Trait:
    """What a finding is recognized by. ``text`` is the code that it is about, in one line."""

    code: str
    message: str
    target: str
    text: str
    line: int


# Each with more of what may have changed left out. In the end a target has no more findings of one
# kind than it had.
SAME: tuple[Key[Trait], ...] = (
    lambda trait: trait,
    lambda trait: (trait.code, trait.message, trait.text),
    lambda trait: (trait.code, trait.message, trait.target),
)


def matched(
    before: Sequence[T],
    now: Sequence[T],
    keys: Iterable[Key[T]],
    *,
    paired: Mapping[int, int] | None = None,
    partly: bool = False,
) -> dict[int, int]:
    """Indices of ``now``, each with the index in ``before`` of what it was.

    Keys are tried in their order, on what is not ``paired`` yet. Where there are more of one
    kind than before, and nothing tells which of them are new, all of them are; with ``partly``
    only those that are too many.
    """
    pairs = dict(paired or {})
    for key in keys:
        had = _kinds(before, key, set(pairs.values()))
        for kind, numbers in _kinds(now, key, pairs.keys()).items():
            if partly or len(numbers) <= len(had[kind]):
                pairs.update(zip(numbers, had[kind], strict=False))
    return pairs


def _kinds(
    items: Sequence[T], key: Key[T], without: Iterable[int]
) -> defaultdict[Hashable, list[int]]:
    done = set(without)
    kinds: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        if number not in done:
            kinds[key(item)].append(number)
    return kinds
