"""Format traced values for the end of a source line."""

from __future__ import annotations

from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen


def brief(place: PlaceShapes) -> str:
    """Format the values of a place: ``f32[b, 64]``; if they differ, the first, the last and the
    count."""
    distinct = list(dict.fromkeys(map(short, place.values)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    return f"{distinct[0]} … {distinct[-1]} {_times(place.count)}"


def short(value: ShapeSeen) -> str:
    """Format one value: ``f32[b, 64]``, or ``3 (constant)`` for a constant."""
    return f"{value.text} (constant)" if value.kind == "constant" else value.text


def _times(count: int) -> str:
    return f"\N{MULTIPLICATION SIGN}{count}"
