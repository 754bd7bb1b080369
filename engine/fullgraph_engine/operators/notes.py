"""Continue to build the operator index if a step fails, with a note for the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def attempt_or_note(action: Callable[[], _T], fallback: _T, sentence: str, notes: list[str]) -> _T:
    """Call ``action`` and return its result; ``fallback`` if it raises.

    If it raises, ``sentence``, which names the missing part, and the error are added to ``notes``.
    """
    try:
        return action()
    except Exception as error:
        notes.append(f"{sentence}: {type(error).__name__}: {error}.")
        return fallback
