"""The events of a ShapeEnv as plain data, each with its effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import sympy  # type: ignore[import-untyped]

from ..protocol.sources import in_user_words
from ..torch_internals.shapes import Source, symbol_hints
from ..tracing.recording import Stack
from . import upstream
from .replay import Player, ReplayError, start_replay
from .tape import Tape, TracedOperator

LIMIT = 100_000
"""Maximum number of events in a timeline."""

EffectKind = Literal["symbol", "replacement", "range", "guard", "assert"]


@dataclass(frozen=True)
class Effect:
    """One change that an event made in the ShapeEnv, such as a new symbol or guard.

    ``symbol`` is empty for a guard on several symbols.
    """

    kind: EffectKind
    symbol: str
    words: str


@dataclass(frozen=True)
class TimelineEvent:
    """One ShapeEnv event, described as plain data.

    ``stack`` are the user frames at the event, ``hints`` the example values of its symbols.
    """

    index: int
    method: str
    words: str
    effects: tuple[Effect, ...]
    symbols: tuple[str, ...]
    hints: tuple[tuple[str, str], ...]
    stack: Stack
    operator: TracedOperator | None = None


@dataclass(frozen=True)
class Timeline:
    """The events of one ShapeEnv as plain data; ``note`` is empty, or one sentence about omitted
    events."""

    tape: int
    function: str
    path: str
    line: int
    events: tuple[TimelineEvent, ...]
    note: str = ""


def build_timeline(tape: Tape, *, limit: int = LIMIT) -> Timeline:
    """Describe the recorded events of a ShapeEnv as plain data.

    If replaying them fails, only the events before the failure are described, and a note in the
    result says so.
    """
    events: list[TimelineEvent] = []
    note = tape.note
    try:
        for event in stream_events(tape):
            if len(events) == limit:
                note = f"Only the first {limit:,} of {len(tape.events):,} events are shown."
                break
            events.append(event)
    except ReplayError as error:
        note = f"{note} {error}".strip()
    return Timeline(tape.index, tape.function, tape.path, tape.line, tuple(events), note)


def stream_events(tape: Tape) -> Iterator[TimelineEvent]:
    """Replay recorded ShapeEnv events, and yield a description of each with its effects.

    Nothing may be traced until the iterator is exhausted or closed.

    Raises:
        ReplayError: An event cannot be replayed.
    """
    with start_replay(tape) as player:
        watch = _EnvWatcher(player)
        yield _describe_event(tape, 0, None, (), watch.hints)
        for index in range(1, len(tape.events)):
            result = player.step()
            yield _describe_event(tape, index, result, watch.take_effects(), watch.hints)


class _EnvWatcher:
    """A watcher of one ShapeEnv that finds what each replayed event changes in it."""

    def __init__(self, player: Player) -> None:
        self._env = env = player.env
        self._reasons: dict[str, str] = {}
        original = env._set_replacement

        def set_replacement(a: Any, tgt: Any, msg: str) -> None:
            self._reasons[str(a)] = str(msg)
            original(a, tgt, msg)

        # Patch only this ShapeEnv object, which is discarded with the player.
        env._set_replacement = set_replacement  # type: ignore[method-assign]
        self._replacements: dict[Any, Any] = {}
        self._ranges: dict[Any, Any] = {}
        self._guards = 0
        self._asserts = 0
        self.hints: dict[str, str] = {}

    def take_effects(self) -> tuple[Effect, ...]:
        """Return the changes of the ShapeEnv that replayed events have made since the last call of
        this method.
        """
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
            found.append(Effect("guard", _single_symbol(guard.expr), str(guard.expr)))
        self._guards = len(env.guards)
        if env.num_deferred_runtime_asserts != self._asserts:
            for item in upstream.runtime_asserts(env)[self._asserts :]:
                found.append(Effect("assert", _single_symbol(item.expr), str(item.expr)))
            self._asserts = env.num_deferred_runtime_asserts
        return tuple(found)


def _single_symbol(expr: sympy.Basic) -> str:
    symbols = expr.free_symbols
    return str(next(iter(symbols))) if len(symbols) == 1 else ""


def _describe_event(
    tape: Tape, index: int, result: Any, effects: tuple[Effect, ...], hints: dict[str, str]
) -> TimelineEvent:
    event = tape.events[index]
    arguments = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    symbols = sorted(
        {str(symbol) for value in [*arguments, result] for symbol in _symbols_in(value)}
        | {effect.symbol for effect in effects if effect.symbol}
    )
    place = tape.places[index]
    return TimelineEvent(
        index,
        tape.method_name(index),
        _event_words(tape, index, result, effects),
        effects,
        tuple(symbols),
        tuple((name, hints[name]) for name in symbols if name in hints),
        place.stack,
        place.operator,
    )


def _symbols_in(value: Any) -> Iterator[Any]:
    if isinstance(value, sympy.Basic):
        yield from value.free_symbols
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _symbols_in(item)
    elif isinstance(expr := upstream.expression_of(value), sympy.Basic):
        yield from expr.free_symbols


def _event_words(tape: Tape, index: int, result: Any, effects: tuple[Effect, ...]) -> str:
    method = tape.method_name(index)
    event = tape.events[index]
    arguments = tape.format_arguments(index, _format_argument)
    match method:
        case "ShapeEnv":
            about = f" for {tape.function}" if tape.function else ""
            return f"ShapeEnv made{about}"
        case "_create_symbolic_sizes_strides_storage_offset":
            sizes = ", ".join(_format_argument(size) for size in result[0])
            return f"sizes of {_source_words(event.args, event.kwargs)} are ({sizes})"
        case "create_symbol" | "create_unspecified_symbol":
            values = (event.args or [None, ""])[1:2]
            given = (
                _format_argument(values[0])
                if values
                else _format_argument((event.kwargs or {}).get("val"))
            )
            return f"{method} {_source_words(event.args, event.kwargs)} = {given} -> {result}"
        case "evaluate_expr" | "guard_or_defer_runtime_assert":
            changed = [e.words for e in effects if e.kind in ("replacement", "range")]
            made = "; deferred to run time" if any(e.kind == "assert" for e in effects) else ""
            tail = f": {'; '.join(changed)}" if changed else ""
            about_expr = arguments[0] if arguments else ""
            return f"{method} {about_expr} -> {result}{made}{tail}"
    changed = [effect.words for effect in effects if effect.kind != "guard"]
    returned = f" -> {_format_argument(result)}" if result is not None else ""
    tail = f": {'; '.join(changed)}" if changed else ""
    return f"{method} {', '.join(arguments)}{returned}{tail}".replace("  ", " ")


def _source_words(args: list[object] | None, kwargs: dict[str, Any] | None) -> str:
    for value in [*(args or []), *(kwargs or {}).values()]:
        if isinstance(value, Source):
            return in_user_words(upstream.name_of_source(value))
    return "?"


def _format_argument(value: Any) -> str:
    if isinstance(value, Source):
        return in_user_words(upstream.name_of_source(value))
    expr = upstream.expression_of(value)
    if expr is not None:
        return str(expr)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_format_argument(item) for item in value)}]"
    return str(value)
