"""Choose the values for which the editor shows an inlay hint, among all values that traces saw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullgraph.domain.shapes import brief_values, short_values
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol.shapes import PlaceShapes


def choose_hinted_places(
    places: Sequence[PlaceShapes], settings: Settings
) -> tuple[PlaceShapes, ...]:
    """Return the names and results in ``places`` that get an inlay hint with their shapes, in the
    order of the text.

    With the setting ``changed``, a name that the code assigns again gets a hint only if its shape
    differs from the previous one. A returned name gets a hint only if its assignment shows another
    shape or does not show a shape.
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


LINE_ROOM = 43
"""Maximum total number of characters of the inlay hints on one line.

VS Code cuts longer hints (``editor.inlayHints.maximumLength``).
"""
_LEAST_ROOM = 10


@dataclass(frozen=True)
class Hint:
    """An inlay hint for the values of a source expression. ``annotation_end`` is the offset after
    the annotation of a parameter; None without an annotation."""

    place: PlaceShapes
    label: str
    annotation_end: int | None = None


def line_hints(
    places: Sequence[tuple[PlaceShapes, int]], annotations: Sequence[Annotation | None]
) -> Iterator[Hint]:
    """Yield the inlay hints of one line of the text, short enough for the editor to show all of
    them.

    Each item of ``places`` is a source expression with its traced values, and the number of values
    that it had in one run.
    """
    full = [
        _label(place, short_values(place, LINE_ROOM, count), annotation)
        for (place, count), annotation in zip(places, annotations, strict=True)
    ]
    fits = sum(map(len, full)) <= LINE_ROOM
    room = max(LINE_ROOM // max(len(places), 1), _LEAST_ROOM)
    for (place, count), annotation, label in zip(places, annotations, full, strict=True):
        if not fits and len(label) > room:
            prefix = len(_label(place, "", annotation))
            label = _label(place, short_values(place, room - prefix, count), annotation)
        if annotation is None:
            yield Hint(place, label)
        elif label not in _EXAMPLE_SIZE.sub("", annotation.text):
            yield Hint(place, label, annotation.end)


def _label(place: PlaceShapes, words: str, annotation: Annotation | None) -> str:
    """Return the text of an inlay hint: ``: f32[b, 64]`` for a name, ``-> f32[b, 64]`` for a
    result, ``f32[b, 64]`` after an annotation."""
    if annotation is not None:
        return words
    return f"-> {words}" if place.role == "return" else f": {words}"


@dataclass(frozen=True)
class Annotation:
    """The annotation of a parameter; ``end`` is the offset after it in the text of the file."""

    text: str
    end: int


_EXAMPLE_SIZE = re.compile(r"=\d+")
"""Pattern of an example size in a shape annotation: the ``=4`` in ``f32[b=4, 16]``."""
_COLON = re.compile(r"\s*:\s*")
_PIECE = re.compile(
    r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>[,=])|(?P<comment>\#[^\n]*)"
    r"|'[^'\n]*'|\"[^\"\n]*\"|."
, re.S)  # fmt: skip


def find_annotation(text: str, place: PlaceShapes, offset: int) -> Annotation | None:
    """Return the annotation of the parameter whose name ends at ``offset``; None without one."""
    if place.role != "parameter" or place.function.endswith("<lambda>"):
        return None
    colon = _COLON.match(text, offset)
    if colon is None:
        return None
    depth, at = 0, colon.end()
    for piece in _PIECE.finditer(text, colon.end()):
        if depth == 0 and (piece["end"] or piece["close"] or piece["comment"]):
            break
        depth += bool(piece["open"]) - bool(piece["close"])
        if not piece[0].isspace():
            at = piece.end()
    return Annotation(text[colon.end() : at], at)
