"""Build messages for users from several sentences."""

from __future__ import annotations


def sentences(*parts: str) -> str:
    """Join the texts to one message, in which each text ends with a full stop."""
    ended = (part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)
    return " ".join(ended)
