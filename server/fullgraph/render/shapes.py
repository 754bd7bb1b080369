"""Describe the values that a trace saw at a source expression, as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping

from fullgraph.domain.phrases import amount, listing
from fullgraph.domain.shapes import times_words
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen

MOST_SHOWN = 12
"""Maximum number of distinct values that a page lists."""


def values_page(
    place: PlaceShapes, shown: str = "", counts: Mapping[str, int] | None = None
) -> str:
    """Describe the values that traces saw at a source expression, as Markdown.

    ``shown`` is the code of the expression. ``counts`` maps each traced function to the number of
    values that its trace saw.
    """
    page = _values_words(place, shown, several=len(counts or {}) > 1)
    if not counts or len(counts) < 2:
        return page
    parts = (f"{amount(number, 'time')} in `{target}`" for target, number in counts.items())
    return f"{page}\n\nReached {listing(parts)}."


def _values_words(place: PlaceShapes, shown: str, *, several: bool) -> str:
    head = f"`{shown}` " if shown and "`" not in shown else ""
    if len(place.values) == 1:
        value = place.values[0]
        times = f", {value.count} times" if value.count > 1 and not several else ""
        equals = "=" if value.kind == "constant" else ":"
        return _join_details(
            f"{head}{equals} `{value.text}`{_constant_words(value)}{times}", _value_details(value)
        )
    different = f"{len(place.values)} different" if not place.left_out else "many different"
    total = "" if several else f", {place.count} in all"
    lines = [f"{head}had {different} values{total}:"]
    for value in place.values[:MOST_SHOWN]:
        times = f" {times_words(value.count)}" if value.count > 1 and not several else ""
        details = " · ".join(_value_details(value))
        lines.append(
            f"- `{value.text}`{_constant_words(value)}{times}"
            + (f" · {details}" if details else "")
        )
    if len(place.values) > MOST_SHOWN:
        lines.append(f"- and {len(place.values) - MOST_SHOWN} more")
    return "\n".join(lines)


def strip_markdown(markdown: str) -> str:
    """Convert Markdown to plain text for clients that do not support it."""
    return markdown.replace("`", "").replace("**", "").replace("\n\n", "\n")


def _constant_words(value: ShapeSeen) -> str:
    if value.kind != "constant":
        return ""
    return f" (constant: a guard on `{value.source}` fixes it)" if value.source else " (constant)"


def _join_details(first: str, details: list[str]) -> str:
    return first + (f"\n\n{' · '.join(details)}" if details else "")


def _value_details(value: ShapeSeen) -> list[str]:
    details = []
    if value.concrete:
        details.append(f"here `{value.concrete}`")
    if value.kind == "tensor":
        details.append(value.device)
        if value.stride:
            details.append(f"stride `{value.stride}`")
        if value.layout:
            details.append(value.layout)
        details.append("requires grad" if value.requires_grad else "no grad")
    if value.graph:
        details.append(f"graph {value.graph}, node `{value.node}`")
    return details
