"""Parts of an index that may be missing without the rest being lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def attempt(do: Callable[[], _T], otherwise: _T, lost: str, notes: list[str]) -> _T:
    """What ``do`` returns; if it raises, ``otherwise``, and a note of what is lost and why."""
    try:
        return do()
    except Exception as error:
        notes.append(f"{lost}: {type(error).__name__}: {error}.")
        return otherwise
