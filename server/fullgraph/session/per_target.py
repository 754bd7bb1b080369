"""What runs tell of each target besides findings, moved with the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import Edit


class Telling(Protocol):
    """What one run told of a target."""

    def joined(self: _T, other: _T, /) -> _T:
        """With that of another probe."""

    def moved(self: _T, edit: Edit, /) -> _T:
        """After an edit."""

    def relocated(self: _T, move: Relocation, /) -> _T:
        """In another text.

        Raises:
            LineLost: some of it has no place there.
        """


_T = TypeVar("_T", bound=Telling)
_V = TypeVar("_V")


def adopted(
    own: Mapping[str, _V], others: Mapping[str, _V], names: frozenset[str]
) -> Mapping[str, _V]:
    """With what others have of some targets in place of the own."""
    kept = {name: one for name, one in own.items() if name not in names}
    return {**kept, **{name: one for name, one in others.items() if name in names}}


class Told(Generic[_T]):
    """The latest telling of each target.

    The first of a run replaces that of the run before; those of other probes join it.
    """

    def __init__(self, by_target: Mapping[str, _T] | None = None) -> None:
        self.by_target: Mapping[str, _T] = by_target or {}
        """What has changed is another one."""
        self._now: set[str] = set()
        """Targets that the run that goes on has told of."""

    def begin(self) -> None:
        """A run starts."""
        self._now = set()

    def take(self, target: str, telling: _T) -> None:
        if target in self._now:
            telling = self.by_target[target].joined(telling)
        self._now.add(target)
        self.by_target = {**self.by_target, target: telling}

    def settle(self, ended: frozenset[str]) -> None:
        """The run is through: what it did not tell of targets that it traced is gone."""
        self.keep(self.by_target.keys() - (ended - self._now))

    def keep(self, names: Iterable[str]) -> None:
        """Forget targets of other names."""
        kept = set(names)
        if not kept.issuperset(self.by_target):
            self.by_target = {name: one for name, one in self.by_target.items() if name in kept}

    def adopt(self, other: Told[_T], names: frozenset[str]) -> None:
        """Take what another one has of some targets, as if it had been told now."""
        self._now |= names
        self.by_target = adopted(self.by_target, other.by_target, names)

    def edited(self, edit: Edit) -> None:
        self.by_target = {name: one.moved(edit) for name, one in self.by_target.items()}

    def relocated(self, move: Relocation) -> Iterator[str]:
        """Move all that can be; gives the targets of the rest, and leaves them as they are."""
        moved = dict(self.by_target)
        for name, one in self.by_target.items():
            try:
                moved[name] = one.relocated(move)
            except LineLost:
                yield name
        self.by_target = moved

    def copy(self) -> Told[_T]:
        """One that later edits and runs leave as it is."""
        return Told(self.by_target)
