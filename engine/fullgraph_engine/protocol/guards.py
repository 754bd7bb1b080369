"""The guards of a target, by frame and by the line that caused them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .packing import items_of, packed
from .places import Range


@dataclass(frozen=True)
class FoundGuard:
    """A condition that compiled code is only valid under.

    ``kind`` is the class of the guard in Dynamo's tree, ``source`` the value that it is about in
    Dynamo's words, of type ``type``; both are empty where it is about no value or several.
    ``cause`` is an index into the causes of its frame, or -1. ``deep``: what asked for it is in a
    library, called from the line of the cause if there is one.
    """

    kind: str
    source: str
    expressions: tuple[str, ...]
    type: str = ""
    cause: int = -1
    deep: bool = False


@dataclass(frozen=True)
class GuardName:
    """A name of a guarded value, as the compiled ``function`` writes it. ``words`` are a clause on
    its guard: ``"`x.shape[0]` was 4, now 6"``."""

    name: str
    words: str
    function: str


def merge_names(names: Iterable[GuardName]) -> tuple[GuardName, ...]:
    """Return each name once, with the words of its first occurrence."""
    found: dict[str, GuardName] = {}
    for one in names:
        found.setdefault(one.name, one)
    return tuple(found.values())


@dataclass(frozen=True)
class GuardedFrame:
    """A compiled frame. Lines are zero-based; ``path`` is empty for the analyzed file, and ``last``
    is where the code that ends last comes from.

    ``entered``: how often its code was run, each time but the first after all guards held; -1
    where that is not known. ``causes``: ranges of the analyzed text, None for one that an edit
    has removed.
    """

    function: str
    path: str
    first_line: int
    last: Range
    compile_id: str
    entered: int
    causes: tuple[Range | None, ...]
    guards: tuple[FoundGuard, ...]

    @property
    def last_line(self) -> int:
        return max(self.first_line, self.last.end.line)


@dataclass(frozen=True)
class GuardsFound:
    """Once per run of a target, after its findings; ``note`` says if not all are told.

    There can be thousands, so they travel as text.
    """

    request: int
    target: str
    packed: str
    note: str = ""
    probe_number: int = 0

    @classmethod
    def of(
        cls,
        request: int,
        target: str,
        frames: Iterable[GuardedFrame],
        note: str = "",
        probe_number: int = 0,
    ) -> GuardsFound:
        return cls(request, target, packed(tuple(frames)), note, probe_number)

    def frames(self) -> tuple[GuardedFrame, ...]:
        """What was packed; nothing if it is not of this form."""
        return items_of(GuardedFrame, self.packed)
