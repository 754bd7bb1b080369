"""Find the functions and modules (targets) whose traces an edit of the file can affect.

In doubt, a target counts as affected.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from fullgraph.incremental.alignment import Alignment
from fullgraph.incremental.statements import ParsedText, Statement
from fullgraph_engine.protocol import GivenCalls

Inputs = Literal["written", "found", "sought", "given", "uncalled", "convention", "program"]
"""Origin of the example inputs with which a target (function or module) was traced.

It decides which edits can affect the inputs:

- ``written``: inputs in a comment at the target; other code cannot affect them.
- ``found``: inputs that were guessed successfully; edits of code that uses the target may lead to
  other inputs.
- ``sought``: no working inputs; edits of definitions may make them possible.
- ``given``: inputs from calls in other code.
- ``uncalled``: other code was searched, but does not call the target.
- ``convention``: inputs from functions and variables with usual names.
- ``program``: inputs from running a program; all code that the program executes affects them.
"""


@dataclass(frozen=True)
class KnownTarget:
    """A function or module (target) that was traced before the edit.

    ``lines`` are the lines that its results refer to. ``definitions`` are names in its inputs,
    which the file may define. ``calls`` describes calls of the target in other code; the engine can
    check whether they still pass the same inputs.
    """

    name: str
    inputs: Inputs
    lines: frozenset[int] = frozenset()
    definitions: tuple[str, ...] = ()
    calls: GivenCalls | None = None

    @property
    def definition(self) -> str:
        """Name of the top-level function or class that contains this function or module; "" for an
        expression.
        """
        root = self.name.partition(".")[0]
        return root if root.isidentifier() else ""


def find_unaffected(
    before: ParsedText, after: ParsedText, change: Alignment, targets: Iterable[KnownTarget]
) -> frozenset[str]:
    """Return the names of the targets (functions and modules) whose traces an edit does not affect.

    ``before`` and ``after`` are the file before and after the edit, ``change`` their difference.
    ``targets`` were traced before it.

    A trace depends on all code that its target uses, and on code that runs at import. If its inputs
    come from other code, it also depends on the code that uses the target, and on the functions and
    variables that provide inputs. A definition also counts as used if a decorator of another module
    may store it.
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
        # Functions that call a target may themselves get inputs from functions and variables with
        # usual names.
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
    """Return the names of the targets that the edit affects at most through calls in other code.

    Their results stay valid if these calls still pass the same inputs. ``change`` is the difference
    between the texts ``before`` and ``after``.
    """
    called = [replace(one, inputs="written") for one in targets if one.calls is not None]
    return find_unaffected(before, after, change, called)


class _ChangedText:
    """The source before or after an edit, with the statements that differ from the other
    version.
    """

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
        """Return the changed definitions that a decorator of another module may have stored, such
        as in a registry.

        The key of a definition is (source text of its decorators, names that it binds).
        """
        changed = (self._text.statements[number] for number in self._changed)
        return {
            (one.names.decorated, " ".join(sorted(one.names.binds))): one
            for one in changed
            if one.names.decorated
        }

    @property
    def bound_by_functions(self) -> frozenset[str]:
        """Names that changed statements bind, except for names of classes."""
        parts = (self._text.statements[number] for number in self._changed)
        return frozenset(name for one in parts if not _is_class(one) for name in one.names.binds)

    @cached_property
    def _other_than_classes(self) -> frozenset[int]:
        """Indices of the statements that do not define a class."""
        parts = enumerate(self._text.statements)
        return frozenset(number for number, one in parts if not _is_class(one))

    @property
    def heads(self) -> list[str]:
        """Signatures of the functions and classes whose statements the edit changed."""
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
            return True  # any statement of the text may affect what the program does
        given = (number for name in target.definitions for number in text.definers.get(name, ()))
        reached = text.find_closure((*own, *given))
        if not changed.isdisjoint(reached):
            return True
        if target.inputs == "written":
            return False
        # The inputs may come from any code that uses the target, and from everything that this code
        # uses.
        users = text.find_users(own)
        if target.inputs in ("uncalled", "convention"):
            users |= self._other_than_classes
        direct = target.inputs in ("found", "sought")
        return not changed.isdisjoint(users if direct else text.find_closure(users))


def _definition_heads(node: ast.stmt) -> Iterator[str]:
    """Yield the parameters of a function, or the bases, fields and parameters of a class."""
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
