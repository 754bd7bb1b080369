"""The exception for values that cannot be written as source text."""

from __future__ import annotations


class UnwritableValue(Exception):
    """Raised if a value cannot be written as source text.

    ``reason`` says which value and why, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
