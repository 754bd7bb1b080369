"""Format numbers and lists as words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SEPARATOR = " · "

_MOST_BLOCKS = 4
"""Maximum number of blocks of lines that ``line_blocks`` lists; further ones are left out."""


def amount(number: int | None, noun: str) -> str:
    """Format a count with its noun: ``1 graph``, ``2 graphs``, ``no graphs``.

    If the count is None, it is ``graphs unknown``.
    """
    if number is None:
        return f"{noun}s unknown"
    if number == 0:
        return f"no {noun}s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listing(parts: Iterable[str], last_word: str = "and") -> str:
    """Join parts with commas and "and" or another word: ``a``, ``a and b``, ``a, b and c``."""
    *head, last = list(parts) or [""]
    return f"{', '.join(head)} {last_word} {last}" if head else last


def brief_listing(names: Sequence[str], most: int) -> str:
    """Join at most ``most`` names, and the number of the others: ``a, b and 3 more``."""
    more = len(names) - most
    return listing([*names[:most], *([f"{more:,} more"] if more > 0 else [])])


def line_blocks(lines: Sequence[int]) -> str:
    """Describe sorted zero-based lines as blocks of one-based lines: ``lines 12-15 and 40``."""
    blocks: list[tuple[int, int]] = []
    for line in lines:
        if blocks and blocks[-1][1] == line - 1:
            blocks[-1] = blocks[-1][0], line
        else:
            blocks.append((line, line))
    named = [
        str(first + 1) if first == last else f"{first + 1}-{last + 1}"
        for first, last in blocks[:_MOST_BLOCKS]
    ]
    if len(blocks) > _MOST_BLOCKS:
        named.append("more")
    return f"{'line' if len(lines) == 1 else 'lines'} {listing(named)}"


def duration(value: float) -> str:
    """Format a duration in seconds with three digits and a fitting unit: ``812 µs``, ``12.3 s``."""
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def seconds(value: float) -> str:
    """Format a duration in seconds: ``0.25 s``; from 1 s on with three digits: ``12.3 s``, ``123
    s``."""
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
