"""Format numbers and lists as words."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " · "


def amount(number: int | None, noun: str) -> str:
    """Format a count with its noun: ``1 graph``, ``2 graphs``, ``no graphs``.

    If the count is None, it is ``graphs unknown``.
    """
    if number is None:
        return f"{noun}s unknown"
    if number == 0:
        return f"no {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listing(parts: Iterable[str]) -> str:
    """Join parts with commas and "and": ``a``, ``a and b``, ``a, b and c``."""
    *head, last = list(parts) or [""]
    return f"{', '.join(head)} and {last}" if head else last


def duration(value: float) -> str:
    """Format a duration in seconds with three digits and a fitting unit: ``812 µs``, ``12.3 s``."""
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def seconds(value: float) -> str:
    """Format a duration in seconds, from 1 s with three digits: ``0.25 s``, ``12.3 s``, ``123
    s``."""
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
