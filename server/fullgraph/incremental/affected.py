"""Which targets a change of the text can affect, on the side of caution."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fullgraph.incremental.alignment import Alignment
from fullgraph.incremental.statements import ParsedText


@dataclass(frozen=True)
class KnownTarget:
    """A target of the earlier text; ``written``: its inputs are written at it, so that nothing
    else of the text has a part in them."""

    name: str
    written: bool

    @property
    def definition(self) -> str:
        """The name at the top of the module that it belongs to; none for an expression."""
        root = self.name.partition(".")[0]
        return root if root.isidentifier() else ""


def unaffected(
    before: ParsedText, after: ParsedText, change: Alignment, targets: Iterable[KnownTarget]
) -> frozenset[str]:
    """Names of the targets whose runs would be the same.

    A run depends on what its target's definition leads to, and on all that is executed when the
    module is. Inputs that are not written at the target may come from whatever leads to it.
    """
    sides = (_Side(before, change.changed_before), _Side(after, change.changed_after))
    if any(side.affects_all for side in sides):
        return frozenset()
    documented = _Side(before, change.documented_before)
    return frozenset(
        target.name
        for target in targets
        if not any(side.affects(target) for side in sides)
        and (target.written or not documented.affects(target))
    )


class _Side:
    """One of the two texts, with the statements that the other one does not have."""

    def __init__(self, text: ParsedText, changed: Collection[int]) -> None:
        self._text, self._changed = text, frozenset(changed)

    @property
    def affects_all(self) -> bool:
        text, changed = self._text, self._changed
        if any(text.statements[number].role == "import" for number in changed):
            return True
        return any(
            text.statements[number].role == "other" and text.statements[number].executed
            for number in changed
        ) or not changed.isdisjoint(text.reached_on_import)

    def affects(self, target: KnownTarget) -> bool:
        text, changed = self._text, self._changed
        if not changed:
            return False
        own = text.definers.get(target.definition, ()) if target.definition else ()
        if not own:
            return True
        reached = text.closed(own)
        if not changed.isdisjoint(reached):
            return True
        if target.written:
            return False
        # Whatever leads to it may be what calls it, and all that this leads to has a part in how.
        users = [
            number
            for number in range(len(text.statements))
            if not text.closed([number]).isdisjoint(own)
        ]
        return not changed.isdisjoint(text.closed(users))
