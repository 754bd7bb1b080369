"""Format traced values for the end of a source line."""

from __future__ import annotations

from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen


def brief_values(place: PlaceShapes) -> str:
    """Format the values of a place: ``f32[b, 64]``; if they differ, the first, the last and the
    count."""
    distinct = list(dict.fromkeys(map(value_text, place.values)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    return f"{distinct[0]} … {distinct[-1]} {times_words(place.count)}"


def value_text(value: ShapeSeen) -> str:
    """Format one value: ``f32[b, 64]``, or ``3 (constant)`` for a constant."""
    return f"{value.text} (constant)" if value.kind == "constant" else value.text


def times_words(count: int) -> str:
    """Format a number of repetitions with a multiplication sign."""
    return f"\N{MULTIPLICATION SIGN}{count}"
