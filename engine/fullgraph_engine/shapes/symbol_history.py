"""How a tape went: which event made a symbol, and what was true of it after which event.

One replay from beginning to end answers this for all symbols.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]

from .replay import playing, resolved
from .tape import Tape
from .upstream import ShapeEnv

After = list[tuple[int, Any]]
"""What something was after an event, and from then on until the next."""


@dataclass
class SymbolCourse:
    """What a symbol stood for, and its bounds; the event that made it is the first."""

    symbol: sympy.Symbol
    values: After = field(default_factory=list)
    ranges: After = field(default_factory=list)

    @property
    def made(self) -> int:
        return int(self.ranges[0][0])


@dataclass
class SymbolHistory:
    """``env`` is as it was at the end. ``changing`` are the events that changed anything, among
    them the first, which makes the ShapeEnv; nine of ten do not. ``guards`` are the conditions
    that are checked, with the event that added each."""

    tape: Tape
    env: ShapeEnv
    changing: list[int] = field(default_factory=lambda: [0])
    symbols: dict[str, SymbolCourse] = field(default_factory=dict)
    guards: After = field(default_factory=list)


def follow(tape: Tape) -> SymbolHistory:
    """Replay a tape to its end and look at the ShapeEnv after every event."""
    with playing(tape) as player:
        env = player.env
        history = SymbolHistory(tape, env)
        ranges: dict[sympy.Symbol, Any] = {}
        replacements: dict[sympy.Symbol, Any] = {}
        counts = _counts(env)
        for index in range(1, len(tape.events)):
            player.step()
            ranged = env.var_to_range != ranges
            replaced = env.replacements != replacements
            if not ranged and not replaced and _counts(env) == counts:
                continue
            counts = _counts(env)
            history.changing.append(index)
            history.guards += [(index, one.expr) for one in env.guards[len(history.guards) :]]
            if ranged:
                ranges = dict(env.var_to_range)
                for symbol, bounds in ranges.items():
                    known = history.symbols.setdefault(str(symbol), SymbolCourse(symbol))
                    _note(known.ranges, index, bounds)
            replacements = dict(env.replacements)
            for known in history.symbols.values():
                _note(known.values, index, resolved(env, known.symbol))
    return history


def _note(history: After, index: int, now: Any) -> None:
    if not history or history[-1][1] != now:
        history.append((index, now))


def _counts(env: ShapeEnv) -> tuple[int, ...]:
    return (
        len(env.guards),
        len(env.axioms),
        len(env.divisible),
        env.num_deferred_runtime_asserts,
        len(env.size_like),
    )
