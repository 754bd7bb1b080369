"""Callables that a user's program compiles (regions), and how running the program ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .places import Range

RegionApi = Literal["torch.compile", "Module.compile", "torch.export.export"]
"""Function by which a program compiled or exported a callable."""

ProgramEnd = Literal["running", "finished", "raised", "exited", "quiet", "time", "killed"]
"""Way in which a program's run ended.

- ``finished``, ``raised``, ``exited``: the program returned, raised an exception, or exited with a
  nonzero status.
- ``quiet``: stopped after every compiled callable made several calls without compiling.
- ``time``, ``killed``: stopped at the time limit, or at another limit.
- ``running``: not ended yet.
"""


Lack = Literal["", "gpu", "memory"]
"""Resource missing on this machine, so that a program runs on fake tensors; empty if none is
missing."""


@dataclass(frozen=True)
class CompileSite:
    """A call of a program that compiles something; ``range`` is the call in the file ``path``."""

    path: str
    range: Range


MOST_CALLS = 100
"""Maximum number of calls listed in a :class:`RegionCalls`; later ones are left out."""


@dataclass(frozen=True)
class RegionCalls:
    """The calls in which a finding occurred, of one callable that a program compiles; ``numbers``
    increase and count from 1."""

    region: str
    numbers: tuple[int, ...]


def merge_calls(calls: Iterable[RegionCalls]) -> tuple[RegionCalls, ...]:
    """Return one item for each compiled callable, with all its call numbers, in the order in which
    the callables first occur."""
    found: dict[str, set[int]] = {}
    for one in calls:
        found.setdefault(one.region, set()).update(one.numbers)
    return tuple(
        RegionCalls(region, tuple(sorted(numbers)[:MOST_CALLS]))
        for region, numbers in found.items()
    )


@dataclass(frozen=True)
class Region:
    """A callable that a program compiles.

    ``program`` is the path of the program that ran. ``options`` are the arguments of the compiling
    call that differ from their defaults, as Python source. ``inlined`` is true for a callable that
    was only called inside another compiled one.
    """

    program: str
    api: RegionApi
    site: CompileSite
    options: tuple[tuple[str, str], ...] = ()
    calls: int = 0
    inlined: bool = False
    is_target: bool = False
    """True if a trace without the program may find the callable too; False for a function inside
    another function, for example."""

    @property
    def option_words(self) -> str:
        """Options of the compiling call as Python source: ``fullgraph=True, dynamic=False``."""
        return ", ".join(f"{name}={value}" for name, value in self.options)
