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
    def by_end(self) -> Mapping[int, tuple[SeenSpan, ...]]:
        found: dict[int, list[SeenSpan]] = {}
        for span in self.values:
            found.setdefault(span.end, []).append(span)
        return {end: tuple(spans) for end, spans in found.items()}
