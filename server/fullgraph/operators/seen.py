"""What the last trace of a text knows of its expressions and locals."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from fullgraph_engine.protocol import SeenKind


@dataclass(frozen=True)
class SeenSpan:
    """An expression, by offsets into the current text, and what it was."""

    start: int
    end: int
    kind: SeenKind


@dataclass(frozen=True)
class Seen:
    """``locals``: by the qualified name of the function and the local's own, where a local was of
    one kind wherever it was seen."""

    values: tuple[SeenSpan, ...] = ()
    locals: Mapping[tuple[str, str], SeenKind] = field(default_factory=dict)

    @functools.cached_property
    def spans(self) -> Mapping[tuple[int, int], SeenKind]:
        """By start and end, where an expression was of one kind whenever it was seen."""
        found: dict[tuple[int, int], SeenKind] = {}
        several = set()
        for span in self.values:
            key = (span.start, span.end)
            if found.setdefault(key, span.kind) != span.kind:
                several.add(key)
        return {key: kind for key, kind in found.items() if key not in several}


NOTHING_SEEN = Seen()
