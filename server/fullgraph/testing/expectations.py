"""The limits that a test sets for findings, and the message about findings above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullgraph.domain.phrases import amount


@dataclass(frozen=True)
class Expected:
    """Maximum numbers of places with findings; None allows any number.

    ``breaks`` are graph breaks and functions that Dynamo skipped in the user's code;
    ``library_breaks`` those in installed packages. ``recompiles`` are in both.
    """

    breaks: int | None = 0
    recompiles: int | None = None
    library_breaks: int | None = None


@dataclass(frozen=True)
class Place:
    """A finding as text: its code, whether installed code causes it, and its full text for the
    terminal.
    """

    code: str
    in_library: bool
    rendered: str

    @property
    def is_break(self) -> bool:
        return self.code.startswith(("graph-break/", "frame-skipped/"))

    @property
    def is_recompile(self) -> bool:
        return self.code.startswith("recompile/")


def failure_text(expected: Expected, graphs: int, places: Sequence[Place]) -> str:
    """Return the message of a failed test, with each finding above the limits in ``expected``;
    empty if the test passes.

    ``graphs`` is the number of compiled graphs, ``places`` the findings. A test that compiles
    nothing fails, because it would hide every problem.
    """
    blocks = list(_excess_blocks(expected, places))
    if not graphs and not any(place.is_break for place in places):
        blocks.insert(
            0,
            "Nothing was compiled. Call code that `torch.compile` compiles, or pass the function "
            "to `fullgraph.check`.",
        )
    return "\n\n".join(blocks)


def _excess_blocks(expected: Expected, places: Sequence[Place]) -> Iterator[str]:
    own = [place for place in places if place.is_break and not place.in_library]
    library = [place for place in places if place.is_break and place.in_library]
    recompiles = [place for place in places if place.is_recompile]
    for limit, found, noun in (
        (expected.breaks, own, "graph break"),
        (expected.library_breaks, library, "graph break of installed packages"),
        (expected.recompiles, recompiles, "recompile"),
    ):
        if limit is not None and len(found) > limit:
            yield f"Expected {_at_most(limit, noun)}, found {len(found)}:"
            yield from (place.rendered for place in found)


def _at_most(limit: int, noun: str) -> str:
    head, _, rest = noun.partition(" of ")
    words = amount(limit, head) + (f" of {rest}" if rest else "")
    return words if limit == 0 else f"at most {words}"
