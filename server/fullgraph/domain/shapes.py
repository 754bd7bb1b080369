"""Format the values that a trace saw at a source expression, as hints at the end of the line."""

from __future__ import annotations

from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen


def brief_values(place: PlaceShapes) -> str:
    """Format the values that a trace saw at a source expression, such as ``f32[b, 64]``.

    If they differ, show the first, the last and the number of values.
    """
    distinct = list(dict.fromkeys(map(value_text, place.values)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    return f"{distinct[0]} … {distinct[-1]} {times_words(place.count)}"


def value_text(value: ShapeSeen) -> str:
    """Format one traced value: ``f32[b, 64]``, or ``3 (constant)`` for a constant."""
    return f"{value.text} (constant)" if value.kind == "constant" else value.text


def times_words(count: int) -> str:
    """Format a number of repetitions after a multiplication sign."""
    return f"\N{MULTIPLICATION SIGN}{count}"
