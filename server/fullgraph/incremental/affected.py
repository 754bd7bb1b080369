"""Which targets a change of the text can affect, on the side of caution."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fullgraph.incremental.alignment import Alignment
from fullgraph.incremental.statements import ParsedText, Statement
from fullgraph_engine.protocol import GivenCalls

Inputs = Literal["written", "found", "sought", "given", "uncalled", "convention", "program"]
"""Where the inputs of a target come from: they are written at it, so that nothing else of the text
has a part in them; they were found by trying, and are tried first again, unless what uses the
target is changed; none were found, or those that are written do not fit, and what another
definition is made with may lead to some; they are what something else calls it with; that led to no
call; functions and variables of usual names have them, and need not mention the target; or a
program calls the target, so that all that it executes has a part in them."""


@dataclass(frozen=True)
class KnownTarget:
    """A target of the earlier text; ``lines`` are those that its runs have told something of.

    ``definitions`` are names that its inputs lead to, if something at the top of the text is called
    so; with ``calls`` the engine can tell whether it is called as it was before.
    """

    name: str
    inputs: Inputs
    lines: frozenset[int] = frozenset()
    definitions: tuple[str, ...] = ()
    calls: GivenCalls | None = None

    @property
    def definition(self) -> str:
        """The name at the top of the module that it belongs to; none for an expression."""
        root = self.name.partition(".")[0]
        return root if root.isidentifier() else ""


def find_unaffected(
    before: ParsedText, after: ParsedText, change: Alignment, targets: Iterable[KnownTarget]
) -> frozenset[str]:
    """Names of the targets whose runs would be the same.

    A run depends on what its target's definition leads to, and on all that is executed when the
    module is. Inputs that are not written at the target may follow from whatever leads to it, and a
    function or a variable that comes or goes may be one that inputs are looked for in. What another
    module keeps of the text, by a decorator, is seen in the runs that come by it.
    """
    sides = (_ChangedText(before, change.changed_before), _ChangedText(after, change.changed_after))
    kept = [side.kept_elsewhere() for side in sides]
    if any(side.affects_all for side in sides) or kept[0].keys() != kept[1].keys():
        return frozenset()
    appeared = sides[0].bound_by_functions ^ sides[1].bound_by_functions
    lines = {line for one in kept[0].values() for line in range(one.first, one.last + 1)}
    documented = _ChangedText(before, change.documented_before)
    targets = list(targets)
    sought = any(target.inputs == "sought" for target in targets)
    alike = not sought or sides[0].heads == sides[1].heads
    if any(target.inputs == "convention" for target in targets):
        # What calls a target may have its own inputs from there.
        targets = [
            replace(target, inputs="convention") if target.inputs == "given" else target
            for target in targets
        ]
    return frozenset(
        target.name
        for target in targets
        if lines.isdisjoint(target.lines)
        and not any(side.affects_target(target) for side in sides)
        and (target.inputs == "written" or not (appeared or documented.affects_target(target)))
        and (target.inputs != "sought" or alike)
    )


def unless_called_otherwise(
    before: ParsedText, after: ParsedText, change: Alignment, targets: Iterable[KnownTarget]
) -> frozenset[str]:
    """Names of the targets whose runs would be the same if they are called as they were."""
    called = [replace(one, inputs="written") for one in targets if one.calls is not None]
    return find_unaffected(before, after, change, called)


class _ChangedText:
    """One of the two texts, with the statements that the other one does not have."""

    def __init__(self, text: ParsedText, changed: Collection[int]) -> None:
        self._text, self._changed = text, frozenset(changed)

    @property
    def affects_all(self) -> bool:
        text, changed = self._text, self._changed
        names = [text.statements[number].names for number in changed]
        if any(one.role == "import" or (one.role == "other" and one.executed) for one in names):
            return True
        return not changed.isdisjoint(text.reached_on_import)

    def kept_elsewhere(self) -> dict[tuple[str, str], Statement]:
        """Definitions that a decorator of another module may keep, by it and their names."""
        changed = (self._text.statements[number] for number in self._changed)
        return {
            (one.names.decorated, " ".join(sorted(one.names.binds))): one
            for one in changed
            if one.names.decorated
        }

    @property
    def bound_by_functions(self) -> frozenset[str]:
        """Names of functions and variables."""
        parts = (self._text.statements[number] for number in self._changed)
        return frozenset(name for one in parts if not _is_class(one) for name in one.names.binds)

    @property
    def heads(self) -> list[str]:
        """What definitions are made with."""
        return sorted(
            head
            for number in self._changed
            for node in self._text.statements[number].nodes
            for head in _definition_heads(node)
        )

    def affects_target(self, target: KnownTarget) -> bool:
        text, changed = self._text, self._changed
        if not changed:
            return False
        own = text.definers.get(target.definition, ()) if target.definition else ()
        if not own:
            return True
        if target.inputs == "program":
            return True  # any part of the text may have a part in what its program does
        given = (number for name in target.definitions for number in text.definers.get(name, ()))
        reached = text.find_closure((*own, *given))
        if not changed.isdisjoint(reached):
            return True
        if target.inputs == "written":
            return False
        # Whatever leads to it may be what calls it, and all that this leads to has a part in how.
        users = {
            number
            for number, statement in enumerate(text.statements)
            if not text.find_closure([number]).isdisjoint(own)
            or (target.inputs in ("uncalled", "convention") and not _is_class(statement))
        }
        direct = target.inputs in ("found", "sought")
        return not changed.isdisjoint(users if direct else text.find_closure(users))


def _definition_heads(node: ast.stmt) -> Iterator[str]:
    """The parameters of a function; of a class also its bases and its fields."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield f"{node.name} {ast.dump(node.args)}"
    elif isinstance(node, ast.ClassDef):
        yield f"{node.name} {[ast.dump(base) for base in node.bases]}"
        for one in node.body:
            if isinstance(one, (ast.Assign, ast.AnnAssign)):
                yield f"{node.name} {ast.dump(one)}"
            elif isinstance(one, ast.FunctionDef) and one.name == "__init__":
                yield f"{node.name} {ast.dump(one.args)}"


def _is_class(statement: Statement) -> bool:
    return all(isinstance(node, ast.ClassDef) for node in statement.nodes)
