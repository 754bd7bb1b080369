"""Guards of a target (a traced function or module), by frame and by the line that caused them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .packing import pack, unpack_items
from .places import Range


@dataclass(frozen=True)
class FoundGuard:
    """A guard: a condition under which compiled code is valid.

    ``kind`` is the class of the guard in Dynamo's guard tree. ``source`` is Dynamo's name for the
    guarded value, and ``type`` its type; both are empty for a guard on several values or on none.
    ``cause`` is an index into the ``causes`` of the :class:`GuardedFrame`, or -1. ``deep``: a
    library's code caused the guard; the cause, if any, is the line that called the library.
    """

    kind: str
    source: str
    expressions: tuple[str, ...]
    type: str = ""
    cause: int = -1
    deep: bool = False


@dataclass(frozen=True)
class GuardName:
    """A name of a guarded value, as the source code of the compiled ``function`` writes it.

    ``words`` is a clause on the guard: ``"`x.shape[0]` was 4, now 6"``.
    """

    name: str
    words: str
    function: str


def merge_names(names: Iterable[GuardName]) -> tuple[GuardName, ...]:
    """Return the names of guarded values without repetitions; the first item with each name is
    kept."""
    found: dict[str, GuardName] = {}
    for one in names:
        found.setdefault(one.name, one)
    return tuple(found.values())


@dataclass(frozen=True)
class GuardedFrame:
    """A function that Dynamo compiled, with the guards of one compilation.

    Lines are zero-based; ``path`` is empty for the analyzed file. ``last`` is the source range of
    the instruction that ends last in the text; it shows where the function ends. ``entered`` is the
    number of times that its compiled code ran; -1 if unknown. ``causes`` are source ranges that
    caused guards, None for a range that the user has deleted since.
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
    """Event: the guards of a traced target, sent after its findings; ``note`` says if some are left
    out.

    There can be thousands of guards, so the frames are packed into one text.
    """

    request: int
    target: str
    packed: str
    note: str = ""
    probe_number: int = 0

    @classmethod
    def from_frames(
        cls,
        request: int,
        target: str,
        frames: Iterable[GuardedFrame],
        note: str = "",
        probe_number: int = 0,
    ) -> GuardsFound:
        return cls(request, target, pack(tuple(frames)), note, probe_number)

    def unpack_frames(self) -> tuple[GuardedFrame, ...]:
        """Decode the frames from ``packed``; empty if the text is invalid."""
        return unpack_items(GuardedFrame, self.packed)
