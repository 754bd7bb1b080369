"""Format the values that a trace saw at a source expression, as hints at the end of the line."""

from __future__ import annotations

from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen


def brief_values(place: PlaceShapes) -> str:
    """Format the values that a trace saw at a source expression: ``f32[b, 64]``.

    If the values differ, show the first value, the last value and the number of values.
    """
    distinct = list(dict.fromkeys(map(value_text, place.values)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    return f"{distinct[0]} … {distinct[-1]}{_suffix(place.count)}"


def short_values(place: PlaceShapes, room: int, count: int) -> str:
    """Format the values of a source expression in at most ``room`` characters, if possible.

    ``count`` is the number of values to show if they differ. What does not fit is left out in this
    order: "(constant)", the dtype of the last value, the last value, sizes.
    """
    distinct = list(dict.fromkeys(value.text for value in place.values))
    if not distinct:
        return ""
    first, suffix = distinct[0], _suffix(count)
    if len(distinct) == 1:
        return _shorten(first, room)
    last = distinct[-1]
    dtype = first.partition("[")[0]
    sizes = last.removeprefix(dtype) if last.startswith(f"{dtype}[") else last
    for words in (f"{first} … {last}{suffix}", f"{first} … {sizes}{suffix}"):
        if len(words) <= room:
            return words
    return f"{_shorten(first, room - len(suffix) - 2)} …{suffix}"


def _suffix(count: int) -> str:
    return f" {times_words(count)}" if count > 1 else ""


def _shorten(text: str, room: int) -> str:
    """Cut the description of a value to at most ``room`` characters, if possible between two sizes:
    ``f32[2, 64, …]``."""
    if len(text) <= room:
        return text
    closing = text[-1] if text[-1:] in ("]", ")") else ""
    cut = text[: max(room - 1 - len(closing), 4)]
    whole = cut.rpartition(", ")[0]
    return f"{whole}, …{closing}" if whole and len(whole) + 3 <= room else f"{cut}…{closing}"


def value_text(value: ShapeSeen) -> str:
    """Format one traced value: ``f32[b, 64]``, or ``3 (constant)`` for a constant."""
    return f"{value.text} (constant)" if value.kind == "constant" else value.text


def times_words(count: int) -> str:
    """Format the number of times that something occurred, after a multiplication sign."""
    return f"\N{MULTIPLICATION SIGN}{count}"
