"""Restore a ShapeEnv to its state after any of its recorded events, by replaying them."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy  # type: ignore[import-untyped]

from ..torch_internals.shapes import Source, SymbolicContext
from . import upstream
from .tape import Tape
from .upstream import ShapeEnv, ShapeEnvEvent


class ReplayError(Exception):
    """Raised if a recorded event cannot be replayed; holds its index, the called method and the
    reason.
    """

    def __init__(self, index: int, method: str, sentence: str) -> None:
        super().__init__(f"Event {index} ({method}) cannot be replayed: {sentence}")
        self.index = index
        self.method = method
        self.sentence = sentence


class OutOfTime(Exception):
    """Raised when a replay exceeds the time limit of :func:`time_limit`."""


_deadline = math.inf


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Make replays inside the ``with`` block raise :class:`OutOfTime` after ``seconds`` of wall
    time.
    """
    global _deadline
    before = _deadline
    _deadline = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline = before


@dataclass
class ReplayBudget:
    """A total wall time, in ``seconds``, for several replays of events; each replay uses up a part
    of it.
    """

    seconds: float

    @contextlib.contextmanager
    def spend_time(self) -> Iterator[None]:
        """Subtract the duration of the ``with`` block from the remaining time.

        Raises :class:`OutOfTime` when no time is left.
        """
        started = time.monotonic()
        try:
            with time_limit(self.seconds):
                yield
        finally:
            self.seconds = max(0.0, self.seconds - (time.monotonic() - started))


class Player:
    """A player that repeats the recorded events of a ShapeEnv one by one on a new ShapeEnv.

    :func:`start_replay` creates it.
    """

    def __init__(self, tape: Tape) -> None:
        if not tape.events or tape.events[0].f is not ShapeEnv:
            raise ReplayError(
                0, "ShapeEnv", "the recorded events do not begin with the creation of a ShapeEnv."
            )
        self.tape = tape
        self.position = 1
        """Number of events replayed or skipped so far; the first one creates the ShapeEnv."""
        self._contexts: dict[int, SymbolicContext] = {}
        self._keep_alive: list[SymbolicContext] = []
        self.env: ShapeEnv = self._run_event(0)

    def step(self) -> Any:
        """Replay the next recorded event and return the result of its ShapeEnv method."""
        result = self._run_event(self.position)
        self.position += 1
        return result

    def skip(self) -> None:
        """Skip the next recorded event: the new ShapeEnv will not get it."""
        self.position += 1

    def _run_event(self, index: int) -> Any:
        event = self.tape.events[index]
        if time.monotonic() > _deadline:
            raise OutOfTime
        try:
            if index == 0:
                return event.run()
            if _is_plain(event):
                return event.f(self.env, *(event.args or [])[1:], **(event.kwargs or {}))
            return self._with_fresh_contexts(event).run(self.env)
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            sentence = f"it raised {type(error).__name__}{f': {first}' if first else ''}".rstrip(
                "."
            )
            raise ReplayError(index, self.tape.method_name(index), f"{sentence}.") from error

    def _with_fresh_contexts(self, event: ShapeEnvEvent) -> ShapeEnvEvent:
        """Return the event with new copies of its symbolic contexts, which torch uses to create
        symbols.

        A context caches symbols by the ``id`` of a ShapeEnv, and ids are reused, so every replay
        needs its own copies.
        """
        args, kwargs = event.args, event.kwargs
        if args is not None and any(isinstance(value, SymbolicContext) for value in args):
            args = [self._fresh_context(value) for value in args]
        if kwargs and any(isinstance(value, SymbolicContext) for value in kwargs.values()):
            kwargs = {name: self._fresh_context(value) for name, value in kwargs.items()}
        return replace(event, args=args, kwargs=kwargs)

    def _fresh_context(self, value: Any) -> Any:
        if not isinstance(value, SymbolicContext):
            return value
        copied = self._contexts.get(id(value))
        if copied is None:
            copied = copy.copy(value)
            for name in ("dynamic_sizes", "constraint_sizes"):
                if isinstance(getattr(copied, name, None), list):
                    object.__setattr__(copied, name, list(getattr(copied, name)))
            if hasattr(copied, "shape_env_to_source_to_symbol_cache"):
                object.__setattr__(copied, "shape_env_to_source_to_symbol_cache", {})
            self._contexts[id(value)] = copied
            self._keep_alive.append(value)
        return copied


_PLAIN = (bool, int, float, str, type(None), sympy.Basic, Source)


def _is_plain(event: ShapeEnvEvent) -> bool:
    """Whether an event can be replayed by a direct call of its ShapeEnv method.

    This requires that no argument except the ShapeEnv itself belongs to the recorded ShapeEnv.
    Torch's own replay searches all arguments for the ShapeEnv, which takes longer than most events.
    """
    values = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    return bool(event.args) and all(isinstance(value, _PLAIN) for value in values)


@contextlib.contextmanager
def start_replay(tape: Tape) -> Iterator[Player]:
    """Yield a player that will repeat the recorded events; do not use it while Dynamo is
    tracing.
    """
    with upstream.apply_settings(tape.settings):
        yield Player(tape)


def replay_tape(tape: Tape, upto: int | None = None) -> ShapeEnv:
    """Return a new ShapeEnv after repeating the first ``upto`` recorded events (None: all)."""
    with start_replay(tape) as player:
        return replay_until(player, upto)


def replay_until(
    player: Player, upto: int | None = None, without: Collection[int] = ()
) -> ShapeEnv:
    """Repeat events until ``upto`` of them (None: all) were repeated or skipped; return the
    ShapeEnv.

    Events with an index in ``without`` are skipped.
    """
    count = len(player.tape.events)
    end = count if upto is None else min(upto, count)
    while player.position < end:
        if player.position in without:
            player.skip()
        else:
            player.step()
    return player.env


def resolve_symbol(env: ShapeEnv, symbol: sympy.Symbol) -> sympy.Expr:
    """Return the expression that a symbol currently equals, without changing the ShapeEnv."""
    value: sympy.Expr = symbol
    for _ in range(len(env.replacements) + 1):
        next_value = value.xreplace(env.replacements)
        if next_value == value:
            break
        value = next_value
    return value
