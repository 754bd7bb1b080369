"""Build messages for users from parts."""

from __future__ import annotations


def sentences(*parts: str) -> str:
    """Join parts to sentences, each with a full stop."""
    ended = (part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)
    return " ".join(ended)
