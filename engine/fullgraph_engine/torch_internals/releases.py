"""Supported releases of torch, and parsing of its version strings."""

from __future__ import annotations

OLDEST = (2, 8)
NEWEST_TESTED = (2, 15)
"""Newest tested release. A newer one must pass the same self-check and is reported as untested."""


def parse_release(version: str) -> tuple[int, int]:
    """Parse major and minor numbers of a version such as ``2.13.0+cpu``; ``(0, 0)`` if invalid."""
    major, minor, *_ = [*version.split("."), "", ""]
    digits = "".join(character for character in minor if character.isdigit())
    return (int(major), int(digits)) if major.isdigit() and digits else (0, 0)


def is_too_old(version: str) -> bool:
    """Whether a version of torch is older than ``OLDEST``, or not a valid version."""
    return parse_release(version) < OLDEST


def is_untested(version: str) -> bool:
    """Whether a version of torch is newer than ``NEWEST_TESTED``."""
    return parse_release(version) > NEWEST_TESTED


def release_text(release: tuple[int, int]) -> str:
    """Return a release as a version string: ``2.8`` for ``(2, 8)``."""
    return ".".join(map(str, release))
