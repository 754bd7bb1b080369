"""Regions that a program compiles, with the results of its run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .places import Range

RegionApi = Literal["torch.compile", "Module.compile", "torch.export.export"]
"""Function that the program called to compile the region."""

ProgramEnd = Literal["running", "finished", "raised", "exited", "quiet", "time", "killed"]
"""End of a program's run.

- ``finished``, ``raised``, ``exited``: by itself, with an exception, with a nonzero status.
- ``quiet``: stopped after every region made several calls without compiling.
- ``time``, ``killed``: stopped at the time limit, or at another limit.
- ``running``: not ended yet.
"""


Lack = Literal["", "gpu", "memory"]
"""Missing resource for which a program runs on fake tensors; an empty string for real tensors."""


@dataclass(frozen=True)
class CompileSite:
    """A call that compiles something; ``range`` covers the call in the file ``path``."""

    path: str
    range: Range


MOST_CALLS = 100
"""Calls that :class:`RegionCalls` lists; later ones are left out."""


@dataclass(frozen=True)
class RegionCalls:
    """The calls of a region in which something was seen, by their increasing numbers from 1."""

    region: str
    numbers: tuple[int, ...]


def merge_calls(calls: Iterable[RegionCalls]) -> tuple[RegionCalls, ...]:
    """Return one item for each region, in the order in which the regions first occur."""
    found: dict[str, set[int]] = {}
    for one in calls:
        found.setdefault(one.region, set()).update(one.numbers)
    return tuple(
        RegionCalls(region, tuple(sorted(numbers)[:MOST_CALLS]))
        for region, numbers in found.items()
    )


@dataclass(frozen=True)
class Region:
    """Something that a program compiles.

    ``program`` is the path of the program that ran. ``options`` are the arguments of the compiling
    call that differ from their defaults, as Python source. ``inlined`` is true for a region that
    was only called inside another compiled region.
    """

    program: str
    api: RegionApi
    site: CompileSite
    options: tuple[tuple[str, str], ...] = ()
    calls: int = 0
    inlined: bool = False

    @property
    def option_words(self) -> str:
        """Options as in the call: ``fullgraph=True, dynamic=False``."""
        return ", ".join(f"{name}={value}" for name, value in self.options)
