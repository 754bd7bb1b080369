"""Safe conversion of the user's objects to text: ``repr`` may raise, or return a huge text."""

from __future__ import annotations

import re
import traceback
from typing import TypeVar

from .protocol import cut_text

_MAX_TEXT, _MAX_TRACEBACK = 2_000, 32_000
"""Maximum number of characters of a converted object, and of a formatted traceback."""

_MAX_FRAMES = 40

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "CUDA out of memory")

_Frame = TypeVar("_Frame")

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences of terminals: colors, cursor movements, links and titles."""


def plain(words: str) -> str:
    """Return a text without the escape sequences of terminals."""
    return _ESCAPES.sub("", words) if "\x1b" in words else words


def capitalize_first(words: str) -> str:
    """Return a text with its first character in upper case, and all others unchanged."""
    return words[:1].upper() + words[1:]


def shorten_line(words: str, most: int) -> str:
    """Return the first line of a text, cut at a space to at most ``most`` characters."""
    line = words.strip().split("\n")[0].rstrip()
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,;:") + "…"


def error_message(error: BaseException | None) -> str:
    """Return the message of an exception as plain text; empty for None, or if its ``__str__``
    raises."""
    try:
        return cut_text(plain(str(error)), _MAX_TEXT) if error is not None else ""
    except Exception:  # a user's __str__ may raise anything
        return ""


def type_and_message(error: BaseException) -> str:
    """Return the type and message of an exception, as in the last line of a traceback."""
    text = error_message(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that Python or a memory allocator of torch ran out of memory."""
    if isinstance(error, MemoryError):
        return True
    words = error_message(error)
    return isinstance(error, RuntimeError) and any(part in words for part in _OUT_OF_MEMORY)


def safe_repr(value: object) -> str:
    """Return the ``repr`` of a value; if that raises, its type in angle brackets."""
    try:
        return cut_text(repr(value), _MAX_TEXT)
    except Exception:  # a user's __repr__ may raise anything
        return f"<{type(value).__name__}>"


def shorten_stack(frames: tuple[_Frame, ...]) -> tuple[_Frame, ...]:
    """Shorten a deep stack, for example of a recursion, to its outermost and innermost frames."""
    if len(frames) <= _MAX_FRAMES:
        return frames
    return frames[: _MAX_FRAMES // 4] + frames[-(_MAX_FRAMES - _MAX_FRAMES // 4) :]


def format_traceback(error: BaseException) -> str:
    """Return the formatted traceback of an exception; of a long one, only the end."""
    lines = "".join(traceback.format_exception(error))
    return lines if len(lines) <= _MAX_TRACEBACK else f"…{lines[-_MAX_TRACEBACK:]}"
