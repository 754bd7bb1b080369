"""The releases of torch that are supported, and what is known of a version string."""

from __future__ import annotations

OLDEST = (2, 8)
NEWEST_TESTED = (2, 15)
"""Newer ones are proven by the same program, and called untested."""


def release(version: str) -> tuple[int, int]:
    """Of ``2.13.0+cpu``; zeros where it is no version."""
    major, minor, *_ = [*version.split("."), "", ""]
    digits = "".join(character for character in minor if character.isdigit())
    return (int(major), int(digits)) if major.isdigit() and digits else (0, 0)


def is_too_old(version: str) -> bool:
    """Whether a version is older than ``OLDEST``, or is no version."""
    return release(version) < OLDEST


def is_untested(version: str) -> bool:
    """Whether a version is newer than ``NEWEST_TESTED``."""
    return release(version) > NEWEST_TESTED


def words(of: tuple[int, int]) -> str:
    """A release as a version string: ``2.8`` for ``(2, 8)``."""
    return ".".join(map(str, of))
