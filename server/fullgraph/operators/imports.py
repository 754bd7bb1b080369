"""Which names of a text stand for torch and what is in it."""

from __future__ import annotations

import functools


class Imports:
    """What the imports and aliases of a text bind, found without parsing it."""

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, text: str) -> Imports:
        return _imports(text)

    def resolve(self, dotted: str, offset: int | None = None) -> str | None:
        """The path that a dotted name stands for, at an offset or in the module's own scope."""
        return None


@functools.lru_cache(maxsize=8)
def _imports(text: str) -> Imports:
    return Imports(text)
