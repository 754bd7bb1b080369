"""Choose the values for which the editor shows an inlay hint, among all values that traces saw."""

from __future__ import annotations

from collections.abc import Sequence

from fullgraph.domain.shapes import brief_values
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol.shapes import PlaceShapes


def choose_hinted_places(
    places: Sequence[PlaceShapes], settings: Settings
) -> tuple[PlaceShapes, ...]:
    """Return the names and results that get an inlay hint with their shapes, in the order of the
    text.

    With the setting ``changed``, a name that is assigned again gets a hint only if its shape
    differs from the assignment above. A returned name gets one only if its assignment does not show
    the same.
    """
    shapes = settings.inlay_hints_shapes
    if shapes == "off":
        return ()
    said: dict[tuple[str, str], str] = {}
    chosen = []
    for place in places:
        if place.role == "expression" or not place.values:
            continue
        words = brief_values(place)
        constant = all(value.kind == "constant" for value in place.values)
        key = place.function, place.name
        if constant and not settings.inlay_hints_constants:
            if place.role != "return":
                said[key] = words
            continue
        if place.role == "return":
            repeated = shapes == "changed" and said.get(key) == words
            wanted = settings.inlay_hints_returns and not repeated
        elif place.role == "parameter":
            wanted = settings.inlay_hints_parameters
            said[key] = words if wanted else ""
        else:
            wanted = shapes == "all" or said.get(key) != words
            said[key] = words
        if wanted:
            chosen.append(place)
    return tuple(chosen)


def hint_label(place: PlaceShapes) -> str:
    """Return the text of an inlay hint: ``: f32[b, 64]`` for a name, ``-> f32[b, 64]`` for a
    result."""
    words = brief_values(place)
    return f"-> {words}" if place.role == "return" else f": {words}"
