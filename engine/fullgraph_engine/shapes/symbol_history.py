"""History of symbols: which ShapeEnv event created each, and which changed its value or range.

One replay of the recorded events collects this for all symbols.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]

from .replay import resolve_symbol, start_replay
from .tape import Tape
from .upstream import ShapeEnv

ValueHistory = list[tuple[int, Any]]
"""Pairs of an event index and a value; each value is valid from its event until the next pair's
event.
"""


@dataclass
class SymbolRecord:
    """History of one symbol: changes of its value and of its range; the first range is from its
    creation."""

    symbol: sympy.Symbol
    values: ValueHistory = field(default_factory=list)
    ranges: ValueHistory = field(default_factory=list)

    @property
    def created_at(self) -> int:
        return int(self.ranges[0][0])


@dataclass
class SymbolHistory:
    """History of all symbols in a recording of ShapeEnv events.

    ``env`` is the ShapeEnv after the last event. ``changing`` are the indices of the events that
    changed the ShapeEnv, beginning with its creation; nine of ten events change nothing. ``guards``
    are pairs of an event index and the guard expression that the event added.
    """

    tape: Tape
    env: ShapeEnv
    changing: list[int] = field(default_factory=lambda: [0])
    symbols: dict[str, SymbolRecord] = field(default_factory=dict)
    guards: ValueHistory = field(default_factory=list)


def follow_tape(tape: Tape) -> SymbolHistory:
    """Replay all recorded events of a ShapeEnv; return which symbols each of them changes."""
    with start_replay(tape) as player:
        env = player.env
        history = SymbolHistory(tape, env)
        ranges: dict[sympy.Symbol, Any] = {}
        replacements: dict[sympy.Symbol, Any] = {}
        counts = _env_counts(env)
        for index in range(1, len(tape.events)):
            player.step()
            ranged = env.var_to_range != ranges
            replaced = env.replacements != replacements
            if not ranged and not replaced and _env_counts(env) == counts:
                continue
            counts = _env_counts(env)
            history.changing.append(index)
            history.guards += [(index, guard.expr) for guard in env.guards[len(history.guards) :]]
            if ranged:
                ranges = dict(env.var_to_range)
                for symbol, bounds in ranges.items():
                    known = history.symbols.setdefault(str(symbol), SymbolRecord(symbol))
                    _append_change(known.ranges, index, bounds)
            replacements = dict(env.replacements)
            for known in history.symbols.values():
                _append_change(known.values, index, resolve_symbol(env, known.symbol))
    return history


def _append_change(history: ValueHistory, index: int, value: Any) -> None:
    if not history or history[-1][1] != value:
        history.append((index, value))


def _env_counts(env: ShapeEnv) -> tuple[int, ...]:
    return (
        len(env.guards),
        len(env.axioms),
        len(env.divisible),
        env.num_deferred_runtime_asserts,
        len(env.size_like),
    )
