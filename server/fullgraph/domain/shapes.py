"""Values that were seen, as they stand at the end of a line."""

from __future__ import annotations

from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen


def brief(place: PlaceShapes) -> str:
    """``f32[b, 64]``; of several that differ the first and the last, and how many there were."""
    distinct = list(dict.fromkeys(map(short, place.values)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else ""
    return f"{distinct[0]} … {distinct[-1]} {_times(place.count)}"


def short(value: ShapeSeen) -> str:
    """``f32[b, 64]`` or, for a constant, ``3 (constant)``."""
    return f"{value.text} (constant)" if value.kind == "constant" else value.text


def _times(count: int) -> str:
    return f"\N{MULTIPLICATION SIGN}{count}"
