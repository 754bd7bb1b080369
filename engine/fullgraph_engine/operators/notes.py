"""Run a step of building the operator index; if the step fails, continue with a note for the
user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def attempt_or_note(action: Callable[[], _T], fallback: _T, sentence: str, notes: list[str]) -> _T:
    """Call ``action`` and return its result; return ``fallback`` if it raises.

    In that case a note is added to ``notes``: ``sentence``, which names the missing part of the
    index, and the error.
    """
    try:
        return action()
    except Exception as error:
        notes.append(f"{sentence}: {type(error).__name__}: {error}.")
        return fallback
