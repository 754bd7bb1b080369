"""Texts of the user's objects: they may be of any length, and asking for them may raise."""

from __future__ import annotations

import re
import traceback
from typing import TypeVar

from .protocol import cut

_MOST, _MOST_TRACE = 2_000, 32_000
"""Characters."""

_MOST_FRAMES = 40

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "CUDA out of memory")

_Frame = TypeVar("_Frame")


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences of terminals: colors, cursor movements, links and titles."""


def plain(words: str) -> str:
    """Return a text without the escape sequences of terminals."""
    return _ESCAPES.sub("", words) if "\x1b" in words else words


def message(error: BaseException | None) -> str:
    """What an exception says, as plain text; empty without one, or if its ``__str__`` raises."""
    try:
        return cut(plain(str(error)), _MOST) if error is not None else ""
    except Exception:  # a user's __str__ may do anything
        return ""


def described(error: BaseException) -> str:
    """The type of an exception and what it says, as Python ends a traceback."""
    text = message(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or an allocator of torch raised an exception for lack of memory."""
    if isinstance(error, MemoryError):
        return True
    words = message(error)
    return isinstance(error, RuntimeError) and any(part in words for part in _OUT_OF_MEMORY)


def shown(value: object) -> str:
    """The ``repr`` of a value; its type if that raises."""
    try:
        return cut(repr(value), _MOST)
    except Exception:  # a user's __repr__ may do anything
        return f"<{type(value).__name__}>"


def shortened(frames: tuple[_Frame, ...]) -> tuple[_Frame, ...]:
    """The outermost and the innermost of very many frames: a recursion has a thousand."""
    if len(frames) <= _MOST_FRAMES:
        return frames
    return frames[: _MOST_FRAMES // 4] + frames[-(_MOST_FRAMES - _MOST_FRAMES // 4) :]


def trace(error: BaseException) -> str:
    """The traceback of an exception, the end of a long one."""
    lines = "".join(traceback.format_exception(error))
    return lines if len(lines) <= _MOST_TRACE else f"…{lines[-_MOST_TRACE:]}"
