"""Ordering of the statements of a program so that it can run: definitions before uses."""

from __future__ import annotations

import ast
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ...scopes import bound_names, uses


@dataclass(frozen=True)
class Piece:
    """A statement with the names that it binds and reads.

    ``is_step`` means that it may change the values that it reads, for example by a method call.
    ``is_effect`` means that it is kept although nothing uses its names.
    """

    node: ast.stmt
    is_step: bool
    is_effect: bool
    binds: frozenset[str]
    eager: frozenset[str]
    lazy: frozenset[str]


def analyze_statement(node: ast.stmt, *, is_effect: bool = False) -> Piece:
    """Return a statement with its names.

    Names are ``lazy`` if the statement reads them only when a function is called, else ``eager``.
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
    """Order statements so that each follows the statements that it needs.

    If possible it also follows what its calls need. Statements that may change a shared value keep
    their order, and so do effects. Other statements stay close to the given order.
    """
    eager, every = _dependencies(pieces)
    groups = _strong_components(every)
    place = {member: index for index, group in enumerate(groups) for member in group}
    before: list[set[int]] = [
        {place[need] for member in group for need in every[member]} - {index}
        for index, group in enumerate(groups)
    ]
    ordered: list[Piece] = []
    for index in _topological_order(before, [min(group) for group in groups]):
        group = sorted(groups[index])
        at = {member: number for number, member in enumerate(group)}
        inner = [{at[need] for need in eager[member] if need in at} for member in group]
        ordered += [
            pieces[group[number]] for number in _topological_order(inner, list(range(len(group))))
        ]
    return ordered


def select_needed(pieces: Sequence[Piece], names: set[str]) -> list[Piece]:
    """Return the statements that bind these names, the statements they need, and all effects."""
    binding: dict[str, list[int]] = {}
    for index, part in enumerate(pieces):
        for name in part.binds:
            binding.setdefault(name, []).append(index)
    wanted = list(names)
    kept: set[int] = set()
    for index, part in enumerate(pieces):
        if part.is_effect:
            kept.add(index)
            wanted += part.eager | part.lazy
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for index in binding.get(name, ()):
            kept.add(index)
            wanted += pieces[index].eager | pieces[index].lazy
    return [part for index, part in enumerate(pieces) if index in kept]


def _dependencies(pieces: Sequence[Piece]) -> tuple[list[set[int]], list[set[int]]]:
    binding: dict[str, int] = {}
    for index, part in enumerate(pieces):
        for name in part.binds:
            binding.setdefault(name, index)
    variables = {name for part in pieces if part.is_step for name in part.binds}
    last: dict[str, int] = {}
    effects: set[int] = set()
    eager: list[set[int]] = []
    every: list[set[int]] = []
    for index, part in enumerate(pieces):
        at_once = {binding[name] for name in part.eager if name in binding}
        if part.is_step:
            for name in (part.binds | part.eager) & variables:
                if name in last:
                    at_once.add(last[name])
                if binding[name] <= index:  # otherwise it follows the binding
                    last[name] = index
        if part.is_effect:
            at_once |= effects
            effects = {index}
        at_once.discard(index)
        eager.append(at_once)
        later = {binding[name] for name in part.lazy if name in binding} - {index}
        every.append(at_once | later)
    return eager, every


def _topological_order(before: list[set[int]], key: list[int]) -> list[int]:
    """Return the indices in an order where each comes after its set in ``before``.

    The smallest ``key`` comes first, also in cycles.
    """
    waiting = [set(needs) for needs in before]
    after: list[list[int]] = [[] for _ in before]
    for index, needs in enumerate(before):
        for need in needs:
            after[need].append(index)
    ready = [(key[index], index) for index, needs in enumerate(waiting) if not needs]
    heapq.heapify(ready)
    done: list[int] = []
    left = {index for index, needs in enumerate(waiting) if needs}
    while ready or left:
        if ready:
            _, index = heapq.heappop(ready)
        else:
            index = min(left, key=key.__getitem__)
            left.discard(index)
        done.append(index)
        for later in after[index]:
            waiting[later].discard(index)
            if not waiting[later] and later in left:
                left.discard(later)
                heapq.heappush(ready, (key[later], later))
    return done


def _strong_components(needs: list[set[int]]) -> list[list[int]]:
    """Return the groups of indices that need each other (strongly connected components).

    ``needs`` has the needed indices of each index. Tarjan's algorithm, without recursion.
    """
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in range(len(needs)):
        if root in number:
            continue
        work = [(root, iter(sorted(needs[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for need in rest:
                if need not in number:
                    number[need] = low[need] = len(number)
                    stack.append(need)
                    on_stack.add(need)
                    work.append((need, iter(sorted(needs[need]))))
                    break
                if need in on_stack:
                    low[node] = min(low[node], number[need])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    group: list[int] = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    found.append(group)
    return found
