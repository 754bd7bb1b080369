"""What cannot be written as source text."""

from __future__ import annotations


class UnwritableValue(Exception):
    """Something has no source text. ``reason`` says what and why, in words that end a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
