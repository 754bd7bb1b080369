"""Numbers and lists in words."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " · "


def amount(number: int | None, noun: str) -> str:
    """``1 graph``, ``2 graphs``, ``no graphs``; ``graphs unknown`` of what could not be seen."""
    if number is None:
        return f"{noun}s unknown"
    if number == 0:
        return f"no {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listing(parts: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *head, last = list(parts) or [""]
    return f"{', '.join(head)} and {last}" if head else last


def duration(value: float) -> str:
    """Seconds with three digits in a fitting unit: ``812 µs``, ``1.23 ms``, ``12.3 s``."""
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def seconds(value: float) -> str:
    """A duration with three significant digits from 1 s on: ``0.25 s``, ``12.3 s``, ``123 s``."""
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
