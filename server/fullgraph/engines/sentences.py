"""What a user reads, made of parts."""

from __future__ import annotations


def sentences(*parts: str) -> str:
    """Parts as sentences behind each other, each with its full stop."""
    ended = (part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)
    return " ".join(ended)
