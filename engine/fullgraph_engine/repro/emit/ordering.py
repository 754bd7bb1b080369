"""Ordering of the statements of a program so that it can run: definitions before uses."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ...scopes import bound_names, uses


@dataclass(frozen=True)
class Piece:
    """A statement of the generated program, with the names that it binds and reads.

    ``is_step``: the statement may change the values that it reads, for example by a method call.
    ``is_effect``: the statement is kept even if no other statement uses its names. The statement
    reads the ``eager`` names when it runs, and the ``lazy`` names only when a function is called.
    """

    node: ast.stmt
    is_step: bool
    is_effect: bool
    binds: frozenset[str]
    eager: frozenset[str]
    lazy: frozenset[str]


def analyze_statement(node: ast.stmt, *, is_effect: bool = False) -> Piece:
    """Find the names that a statement binds and reads.

    A name that it reads is ``lazy`` if it is read only when a function is called, else ``eager``.
    ``is_effect``: keep the statement even if nothing uses the names that it binds.
    """
    eager: set[str] = set()
    lazy: set[str] = set()
    for use in uses(node):
        if isinstance(use.node.ctx, ast.Load):
            (eager if use.eager else lazy).add(use.node.id)
    is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    is_import = isinstance(node, (ast.Import, ast.ImportFrom))
    names = frozenset(bound_names([node]))
    is_step = not is_definition and not is_import
    is_effect = is_effect or (is_step and not names)
    return Piece(node, is_step, is_effect, names, frozenset(eager - names), frozenset(lazy - names))


def sort_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Sort statements so that definitions come before their uses.

    A statement follows the definitions of the names that it reads immediately. It also follows the
    definitions that its calls read later, except in a dependency cycle. Statements that may change
    a shared value keep their order, and so do statements kept for their effects. Other statements
    stay close to the given order.
    """
    needed_at_once, needed_later = _dependencies(pieces)
    reached = [_reachable(index, needed_at_once, needed_later) for index in range(len(pieces))]
    ordered: list[Piece] = []
    placed: set[int] = set()

    def place(index: int) -> None:
        """Append the statements that a statement needs, then the statement itself."""
        if index in placed:
            return
        cycle = {need for need in reached[index] if index in reached[need]}
        for need in sorted(reached[index] - cycle):
            place(need)
        for member in sorted(cycle | {index}):
            place_in_cycle(member)

    def place_in_cycle(index: int) -> None:
        """Append a statement of a dependency cycle after the statements that it needs
        immediately.
        """
        if index not in placed:
            placed.add(index)
            for need in sorted(needed_at_once[index]):
                place_in_cycle(need)
            ordered.append(pieces[index])

    for index in range(len(pieces)):
        place(index)
    return ordered


def select_needed(pieces: Sequence[Piece], names: set[str]) -> list[Piece]:
    """Return the statements that bind the given names, the statements they need, and all statements
    kept for their effects.
    """
    binding: dict[str, list[int]] = {}
    for index, piece in enumerate(pieces):
        for name in piece.binds:
            binding.setdefault(name, []).append(index)
    wanted = list(names)
    kept: set[int] = set()
    for index, piece in enumerate(pieces):
        if piece.is_effect:
            kept.add(index)
            wanted += piece.eager | piece.lazy
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for index in binding.get(name, ()):
            kept.add(index)
            wanted += pieces[index].eager | pieces[index].lazy
    return [piece for index, piece in enumerate(pieces) if index in kept]


def _reachable(index: int, *needs: Sequence[set[int]]) -> set[int]:
    """Return the indices reachable from ``index`` along edges; each of ``needs`` maps an index to
    the indices it needs.
    """
    found: set[int] = set()
    waiting = [index]
    while waiting:
        index = waiting.pop()
        new = set().union(*(each[index] for each in needs)) - found
        found |= new
        waiting += new
    return found


def _dependencies(pieces: Sequence[Piece]) -> tuple[list[set[int]], list[set[int]]]:
    """For each statement, return the statements that it needs immediately, and the statements that
    it needs later.

    Both results are lists of sets of indices. A statement needs another one later if only the
    functions that it calls read a name of the other one.
    """
    binding: dict[str, int] = {}
    for index, piece in enumerate(pieces):
        for name in piece.binds:
            binding.setdefault(name, index)
    variables = {name for piece in pieces if piece.is_step for name in piece.binds}
    last: dict[str, int] = {}
    effects: set[int] = set()
    needed_at_once: list[set[int]] = []
    needed_later: list[set[int]] = []
    for index, piece in enumerate(pieces):
        at_once = {binding[name] for name in piece.eager if name in binding}
        if piece.is_step:
            for name in (piece.binds | piece.eager) & variables:
                if name in last:
                    at_once.add(last[name])
                if binding[name] <= index:  # statements before the binding are moved after it
                    last[name] = index
        if piece.is_effect:
            at_once |= effects
            effects = {index}
        at_once.discard(index)
        needed_at_once.append(at_once)
        needed_later.append({binding[name] for name in piece.lazy if name in binding})
    return needed_at_once, needed_later
