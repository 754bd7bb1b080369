"""Types that the last trace of a text recorded for its expressions and local variables."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from fullgraph_engine.protocol import SeenKind


@dataclass(frozen=True)
class SeenSpan:
    """The type that a trace recorded for an expression, given by its start and end offset in the
    current text."""

    start: int
    end: int
    kind: SeenKind


@dataclass(frozen=True)
class Seen:
    """The types that the last trace recorded for the expressions and local variables of a text."""

    values: tuple[SeenSpan, ...] = ()
    """Recorded types of expressions; an expression that had several types has several entries."""
    locals: Mapping[tuple[str, str], SeenKind] = field(default_factory=dict)
    """Types of local variables by qualified function name and variable name; variables that had
    several types are omitted."""

    @functools.cached_property
    def spans(self) -> Mapping[tuple[int, int], SeenKind]:
        """Types of expressions by start and end offset.

        Expressions that had several types are omitted.
        """
        found: dict[tuple[int, int], SeenKind] = {}
        ambiguous = set()
        for span in self.values:
            key = (span.start, span.end)
            if found.setdefault(key, span.kind) != span.kind:
                ambiguous.add(key)
        return {key: kind for key, kind in found.items() if key not in ambiguous}


NOTHING_SEEN = Seen()
"""The recorded types of a text that was not traced yet."""
