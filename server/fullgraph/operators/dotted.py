"""The dotted name that is being typed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

from .index import OperatorIndex
from .seen import Seen
from .subject import NOTHING_SEEN, Certainty


@dataclass(frozen=True)
class Dotted:
    """``base`` is what is left of the last dot, resolved (``torch.ops.aten``), and
    empty where it is unknown or there is no dot; ``prefix`` the last part as far as it is typed,
    ``start`` and ``end`` the span of that part. ``importing``: in an import statement."""

    base: str
    prefix: str
    start: int
    end: int
    certainty: Certainty
    importing: bool


def dotted_at(
    text: str, offset: int, index: OperatorIndex, seen: Seen = NOTHING_SEEN
) -> Dotted | None:
    """The dotted name at an offset; None inside comments and ordinary strings."""
    return None
