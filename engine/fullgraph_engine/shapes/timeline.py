"""The events of a ShapeEnv as plain data, each with what it changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import sympy  # type: ignore[import-untyped]

from ..protocol.sources import in_user_words
from ..torch_internals.shapes import Source, symbol_hints
from ..tracing.recording import Stack
from . import upstream
from .replay import Player, ReplayError, playing
from .tape import Operator, Tape

LIMIT = 100_000

EffectKind = Literal["symbol", "replacement", "range", "guard", "assert"]


@dataclass(frozen=True)
class Effect:
    """One thing that an event changed. ``symbol`` is empty for a guard on several."""

    kind: EffectKind
    symbol: str
    words: str


@dataclass(frozen=True)
class Event:
    """One event. ``stack`` are user frames, ``hints`` the values that its symbols had."""

    index: int
    method: str
    words: str
    effects: tuple[Effect, ...]
    symbols: tuple[str, ...]
    hints: tuple[tuple[str, str], ...]
    stack: Stack
    operator: Operator | None = None


@dataclass(frozen=True)
class Timeline:
    """``note`` says in one sentence what is not shown, and is empty if everything is."""

    tape: int
    function: str
    path: str
    line: int
    events: tuple[Event, ...]
    note: str = ""


def timeline(tape: Tape, *, limit: int = LIMIT) -> Timeline:
    """All events of a tape in words; where replay fails, those before, and a note."""
    events: list[Event] = []
    note = tape.note
    try:
        for event in stream(tape):
            if len(events) == limit:
                note = f"Only the first {limit:,} of {len(tape.events):,} events are shown."
                break
            events.append(event)
    except ReplayError as error:
        note = f"{note} {error}".strip()
    return Timeline(tape.index, tape.function, tape.path, tape.line, tuple(events), note)


def stream(tape: Tape) -> Iterator[Event]:
    """The events one by one. They are worked out by replay, so :class:`ReplayError` may come.

    Nothing may be traced until the iterator is exhausted or closed.
    """
    with playing(tape) as player:
        watch = _Watch(player)
        yield _event(tape, 0, None, (), watch.hints)
        for index in range(1, len(tape.events)):
            result = player.step()
            yield _event(tape, index, result, watch.effects(), watch.hints)


class _Watch:
    """Sees what each event changes."""

    def __init__(self, player: Player) -> None:
        self._env = env = player.env
        self._reasons: dict[str, str] = {}
        original = env._set_replacement

        def set_replacement(a: Any, tgt: Any, msg: str) -> None:
            self._reasons[str(a)] = str(msg)
            original(a, tgt, msg)

        # On this one instance; it is thrown away with the player.
        env._set_replacement = set_replacement  # type: ignore[method-assign]
        self._replacements: dict[Any, Any] = {}
        self._ranges: dict[Any, Any] = {}
        self._guards = 0
        self._asserts = 0
        self.hints: dict[str, str] = {}

    def effects(self) -> tuple[Effect, ...]:
        """What changed since this was asked last."""
        env = self._env
        found: list[Effect] = []
        for symbol, bounds in env.var_to_range.items():
            before = self._ranges.get(symbol)
            if before is bounds or before == bounds:
                continue
            self._ranges[symbol] = bounds
            text = f"{symbol} in [{bounds.lower}, {bounds.upper}]"
            if before is None:
                hint = symbol_hints(env).get(symbol)
                if hint is not None:
                    self.hints[str(symbol)] = str(hint)
                found.append(Effect("symbol", str(symbol), text))
            else:
                found.append(Effect("range", str(symbol), text))
        if env.replacements != self._replacements:
            for symbol, value in env.replacements.items():
                if self._replacements.get(symbol) != value:
                    reason = self._reasons.get(str(symbol), "")
                    text = f"{symbol} -> {value}{f' ({reason})' if reason else ''}"
                    found.append(Effect("replacement", str(symbol), text))
            self._replacements = dict(env.replacements)
        for guard in env.guards[self._guards :]:
            found.append(Effect("guard", _only(guard.expr), str(guard.expr)))
        self._guards = len(env.guards)
        if env.num_deferred_runtime_asserts != self._asserts:
            every = [item for items in env.deferred_runtime_asserts.values() for item in items]
            for item in every[self._asserts :]:
                found.append(Effect("assert", _only(item.expr), str(item.expr)))
            self._asserts = env.num_deferred_runtime_asserts
        return tuple(found)


def _only(expr: sympy.Basic) -> str:
    symbols = expr.free_symbols
    return str(next(iter(symbols))) if len(symbols) == 1 else ""


def _event(
    tape: Tape, index: int, result: Any, effects: tuple[Effect, ...], hints: dict[str, str]
) -> Event:
    event = tape.events[index]
    arguments = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    symbols = sorted(
        {str(symbol) for value in [*arguments, result] for symbol in _symbols(value)}
        | {effect.symbol for effect in effects if effect.symbol}
    )
    place = tape.places[index]
    return Event(
        index,
        tape.method(index),
        _words(tape, index, result, effects),
        effects,
        tuple(symbols),
        tuple((name, hints[name]) for name in symbols if name in hints),
        place.stack,
        place.operator,
    )


def _symbols(value: Any) -> Iterator[Any]:
    if isinstance(value, sympy.Basic):
        yield from value.free_symbols
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _symbols(item)
    elif isinstance(expr := upstream.expression_of(value), sympy.Basic):
        yield from expr.free_symbols


def _words(tape: Tape, index: int, result: Any, effects: tuple[Effect, ...]) -> str:
    method = tape.method(index)
    event = tape.events[index]
    arguments = [_argument(value) for value in (event.args or [])[1:]]
    arguments += [
        f"{name}={_argument(value)}"
        for name, value in (event.kwargs or {}).items()
        if name != "symbolic_context"
    ]
    match method:
        case "ShapeEnv":
            about = f" for {tape.function}" if tape.function else ""
            return f"ShapeEnv made{about}"
        case "_create_symbolic_sizes_strides_storage_offset":
            sizes = ", ".join(_argument(size) for size in result[0])
            return f"sizes of {_source(event.args, event.kwargs)} are ({sizes})"
        case "create_symbol" | "create_unspecified_symbol":
            values = (event.args or [None, ""])[1:2]
            given = _argument(values[0]) if values else _argument((event.kwargs or {}).get("val"))
            return f"{method} {_source(event.args, event.kwargs)} = {given} -> {result}"
        case "evaluate_expr" | "guard_or_defer_runtime_assert":
            changed = [e.words for e in effects if e.kind in ("replacement", "range")]
            made = "; deferred to run time" if any(e.kind == "assert" for e in effects) else ""
            tail = f": {'; '.join(changed)}" if changed else ""
            about_expr = arguments[0] if arguments else ""
            return f"{method} {about_expr} -> {result}{made}{tail}"
    changed = [effect.words for effect in effects if effect.kind != "guard"]
    returned = f" -> {_argument(result)}" if result is not None else ""
    tail = f": {'; '.join(changed)}" if changed else ""
    return f"{method} {', '.join(arguments)}{returned}{tail}".replace("  ", " ")


def _source(args: list[object] | None, kwargs: dict[str, Any] | None) -> str:
    for value in [*(args or []), *(kwargs or {}).values()]:
        if isinstance(value, Source):
            return in_user_words(upstream.name_of_source(value))
    return "?"


def _argument(value: Any) -> str:
    if isinstance(value, Source):
        return in_user_words(upstream.name_of_source(value))
    expr = upstream.expression_of(value)
    if expr is not None:
        return str(expr)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_argument(item) for item in value)}]"
    return str(value)
