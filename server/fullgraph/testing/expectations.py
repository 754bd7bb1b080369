"""The findings that a test allows, and the message about other findings."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullgraph.domain.phrases import amount
from fullgraph.testing.causes import Cause
from fullgraph.testing.expectation_files import UPDATE


class Default(enum.Enum):
    """The value of a limit that the test does not set."""

    DEFAULT = "default"


DEFAULT = Default.DEFAULT
Limit = int | None | Default


@dataclass(frozen=True)
class Expected:
    """Maximum numbers of places with findings; None allows any number.

    ``breaks`` limits graph breaks, and functions that Dynamo skipped, in the user's code.
    ``library_breaks`` limits the same findings in installed packages. ``recompiles`` limits
    recompiles of both. By default, only ``breaks`` is limited, to 0; with a file of expectations
    (``expected``), all three are. Findings in the file do not count. ``warmup`` is the number of
    first calls whose recompiles do not count.
    """

    breaks: Limit = DEFAULT
    recompiles: Limit = DEFAULT
    library_breaks: Limit = DEFAULT
    expected: str = ""
    warmup: int = 0

    def limit_of(self, place: Place) -> int | None:
        """Return the maximum number of findings of the same kind as ``place``; None if the number
        is not limited."""
        if place.is_recompile:
            return self._limit(self.recompiles, 0 if self.expected else None)
        if place.is_break and place.in_library:
            return self._limit(self.library_breaks, 0 if self.expected else None)
        return self._limit(self.breaks, 0) if place.is_break else None

    @staticmethod
    def _limit(limit: Limit, default: int | None) -> int | None:
        return default if isinstance(limit, Default) else limit

    def limited_places(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """Return the findings in ``places`` of kinds whose number is limited."""
        return tuple(place for place in places if self.limit_of(place) is not None)


@dataclass(frozen=True)
class Place:
    """A finding as text: its code, whether installed code causes it, its full text for the
    terminal, and the code that causes it.
    """

    code: str
    in_library: bool
    rendered: str
    causes: tuple[Cause, ...] = ()

    @property
    def is_break(self) -> bool:
        return self.code.startswith(("graph-break/", "frame-skipped/"))

    @property
    def is_recompile(self) -> bool:
        return self.code.startswith("recompile/")

    @property
    def noun(self) -> str:
        """Noun for the kind of finding, with ``{}`` after the word that gets the plural."""
        if self.is_recompile:
            return "recompile{}"
        return "graph break{} of installed packages" if self.in_library else "graph break{}"


NOTHING_COMPILED = (
    "Nothing was compiled. Call code that `torch.compile` compiles, or pass the function to "
    "`fullgraph.check`. The marker does not check what fixtures call."
)


def excess_text(expected: Expected, places: Sequence[Place]) -> str:
    """Return a message with each finding above the limits in ``expected``; empty if no limit is
    exceeded.

    ``places`` are the findings that the file of expectations does not contain.
    """
    return "\n\n".join(_excess_blocks(expected, places))


def is_nothing_compiled(graphs: int, places: Sequence[Place]) -> bool:
    """Whether Dynamo neither compiled a graph nor met a graph break; skipped functions do not
    count.

    A check of nothing must fail, because it would hide every problem.
    """
    return not graphs and not any(place.code.startswith("graph-break/") for place in places)


def _excess_blocks(expected: Expected, places: Sequence[Place]) -> Iterator[str]:
    kinds: dict[str, list[Place]] = {}
    for place in expected.limited_places(places):
        kinds.setdefault(place.noun, []).append(place)
    excess = False
    for noun, found in kinds.items():
        limit = expected.limit_of(found[0]) or 0
        if len(found) > limit:
            excess = True
            yield f"Expected {_at_most(limit, noun, expected.expected)}, found {len(found)}:"
            yield from (place.rendered for place in found)
    if excess and expected.expected:
        yield f"If these findings are intended, add them to {expected.expected} with `{UPDATE}`."


def _at_most(limit: int, noun: str, file: str) -> str:
    head, _, rest = noun.partition("{}")
    words = amount(limit, f"other {head}" if file else head) + rest
    words += f" than in {file}" if file else ""
    return words if limit == 0 else f"at most {words}"
