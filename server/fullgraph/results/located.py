"""Results for an earlier text, which are updated for the current text when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Generic, TypeVar

from fullgraph.incremental.relocation import Relocation

T = TypeVar("T")


class Located(Generic[T]):
    """Results whose source ranges refer to an earlier text, and are moved to the current text when
    read.

    Several edits may happen before ``current`` is read. ``read`` returns the results with ranges in
    the earlier text, for example by decoding an event.
    """

    def __init__(self, read: Callable[[], T], relocations: tuple[Relocation, ...] = ()) -> None:
        self._read, self._relocations = read, relocations

    @classmethod
    def wrap(cls, facts: T) -> Located[T]:
        """Return an object for results (``facts``) whose source ranges are already in the current
        text."""
        return cls(lambda: facts)

    @cached_property
    def current(self) -> T:
        """The results with source ranges in the current text."""
        facts = self._read()
        for relocation in self._relocations:
            facts = relocation.relocate_value(facts)
        return facts

    def relocate_later(self, relocations: Iterable[Relocation]) -> Located[T]:
        """Return the results for a later text, with ranges to move by ``relocations`` when they are
        read.

        Results whose source range was removed are dropped then.
        """
        if "current" in self.__dict__:
            facts = self.current
            return Located(lambda: facts, tuple(relocations))
        return Located(self._read, (*self._relocations, *relocations))

    def relocate_now(self, relocation: Relocation) -> Located[T]:
        """Return the results with source ranges in a later text, moved immediately.

        Raises:
            LineLost: The relocation is strict, and the later text lacks a source range.
        """
        return Located.wrap(relocation.relocate_value(self.current))
