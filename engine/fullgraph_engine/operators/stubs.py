"""Names that only torch's Python sources and stubs have: written by hand, or in Python."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.operators import Name
from .sources import Sources


@dataclass(frozen=True)
class Written:
    """``aliases`` maps public paths to the bindings that torch's Python modules assign to them."""

    names: tuple[Name, ...]
    aliases: dict[str, str]


def written_names(found: Sources, bound: frozenset[str]) -> Written:
    return Written((), {})
