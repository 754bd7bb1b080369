"""Kinds of values that the last runs saw in expressions and locals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.operators import Seen, SeenSpan
from fullgraph_engine.protocol import SeenKind, SeenValue


@dataclass(frozen=True)
class SeenByTarget:
    """The kinds of values, such as tensor or module, that the runs of one target saw in each
    expression and local variable.
    """

    values: tuple[SeenValue, ...]

    def merge_with(self, other: SeenByTarget) -> SeenByTarget:
        """Return the kinds of values in either object, such as from two runs of a target with
        different inputs.
        """
        return SeenByTarget(tuple(dict.fromkeys((*self.values, *other.values))))


def seen_in(text: TextPositions, targets: Iterable[SeenByTarget]) -> Seen:
    """Return the kinds of values of expressions and local variables by offsets in the current text.

    Only values that had the same kind in the runs of all targets are included. All values except
    tensors and modules count as one kind.
    """
    spans: dict[tuple[int, int], SeenKind | None] = {}
    locals_: dict[tuple[str, str], SeenKind | None] = {}
    for target in targets:
        for value in target.values:
            kind: SeenKind = value.kind if value.kind in ("tensor", "module") else "other"
            if value.name:
                local = value.function, value.name
                if locals_.setdefault(local, kind) != kind:
                    locals_[local] = None
                continue
            where = text.offset(value.range.start), text.offset(value.range.end)
            if spans.setdefault(where, kind) != kind:
                spans[where] = None
    return Seen(
        tuple(SeenSpan(*where, kind) for where, kind in spans.items() if kind is not None),
        {local: kind for local, kind in locals_.items() if kind is not None},
    )
