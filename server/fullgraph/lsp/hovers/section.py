"""One part of a hover."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """``start`` and ``end`` are offsets of the part of the text that it is about."""

    markdown: str
    plain: str
    start: int
    end: int
