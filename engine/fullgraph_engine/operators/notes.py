"""Continue without a part of the index that could not be built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def attempt_or_note(action: Callable[[], _T], fallback: _T, sentence: str, notes: list[str]) -> _T:
    """Return the result of ``action``, or ``fallback`` if it raises.

    In that case, appends ``sentence``, which names the missing part, and the error to ``notes``.
    """
    try:
        return action()
    except Exception as error:
        notes.append(f"{sentence}: {type(error).__name__}: {error}.")
        return fallback
