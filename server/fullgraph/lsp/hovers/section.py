"""One section of a hover."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HoverSection:
    """A section of a hover; ``start`` and ``end`` are the code points of the text it describes."""

    markdown: str
    plain: str
    start: int
    end: int
