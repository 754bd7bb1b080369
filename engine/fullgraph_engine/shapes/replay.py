"""Bring a ShapeEnv to the state that it had after any of its events."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from ..protocol.sources import in_user_words
from ..torch_internals.exceptions import ConstraintViolationError
from ..torch_internals.shapes import Source, SymbolicContext
from . import upstream, words
from .tape import Tape
from .upstream import FakeTensorMeta, ShapeEnv, ShapeEnvEvent


class ReplayError(Exception):
    """A tape that cannot be replayed: at which event, and why in one sentence."""

    def __init__(self, index: int, method: str, sentence: str) -> None:
        super().__init__(f"Event {index} ({method}) cannot be replayed: {sentence}")
        self.index = index
        self.method = method
        self.sentence = sentence


class OutOfTime(Exception):
    """Replaying took longer than :func:`within` allows."""


_deadline = math.inf


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Whatever is replayed inside raises :class:`OutOfTime` after so many seconds."""
    global _deadline
    before = _deadline
    _deadline = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline = before


@dataclass
class Budget:
    """``seconds`` that several replays may take together."""

    seconds: float

    @contextlib.contextmanager
    def spend(self) -> Iterator[None]:
        """Take from it what replaying inside takes. Raises as :func:`within` does."""
        started = time.monotonic()
        try:
            with within(self.seconds):
                yield
        finally:
            self.seconds = max(0.0, self.seconds - (time.monotonic() - started))


class Player:
    """Replays a tape event by event. Made by :func:`playing`."""

    def __init__(self, tape: Tape) -> None:
        if not tape.events or tape.events[0].f is not ShapeEnv:
            raise ReplayError(0, "ShapeEnv", "the tape does not begin with making a ShapeEnv.")
        self.tape = tape
        self.position = 1
        """How many events have been replayed; the first makes the ShapeEnv."""
        self._contexts: dict[int, SymbolicContext] = {}
        self._kept: list[SymbolicContext] = []
        self.env: ShapeEnv = self._run(0)

    def step(self) -> Any:
        """Replay the next event; what it returned."""
        result = self._run(self.position)
        self.position += 1
        return result

    def skip(self) -> None:
        """Leave the next event out."""
        self.position += 1

    def _run(self, index: int) -> Any:
        event = self.tape.events[index]
        if time.monotonic() > _deadline:
            raise OutOfTime
        try:
            if index == 0:
                return event.run()
            if _is_plain(event):
                return event.f(self.env, *(event.args or [])[1:], **(event.kwargs or {}))
            return self._prepared(event).run(self.env)
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            sentence = f"it raised {type(error).__name__}{f': {first}' if first else ''}".rstrip(
                "."
            )
            raise ReplayError(index, self.tape.method(index), f"{sentence}.") from error

    def _prepared(self, event: ShapeEnvEvent) -> ShapeEnvEvent:
        """Contexts remember symbols by the id of a ShapeEnv, and ids are used again: every replay
        has its own."""
        args, kwargs = event.args, event.kwargs
        if args is not None and any(isinstance(value, SymbolicContext) for value in args):
            args = [self._fresh(value) for value in args]
        if kwargs and any(isinstance(value, SymbolicContext) for value in kwargs.values()):
            kwargs = {name: self._fresh(value) for name, value in kwargs.items()}
        return replace(event, args=args, kwargs=kwargs)

    def _fresh(self, value: Any) -> Any:
        if not isinstance(value, SymbolicContext):
            return value
        known = self._contexts.get(id(value))
        if known is None:
            known = copy.copy(value)
            for name in ("dynamic_sizes", "constraint_sizes"):
                if isinstance(getattr(known, name, None), list):
                    object.__setattr__(known, name, list(getattr(known, name)))
            if hasattr(known, "shape_env_to_source_to_symbol_cache"):
                object.__setattr__(known, "shape_env_to_source_to_symbol_cache", {})
            self._contexts[id(value)] = known
            self._kept.append(value)
        return known


_PLAIN = (bool, int, float, str, type(None), sympy.Basic, Source)


def _is_plain(event: ShapeEnvEvent) -> bool:
    """Whether nothing of the recorded ShapeEnv is among the arguments, besides itself.

    torch's own way of replaying looks for it in everything, which takes longer than most events.
    """
    values = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    return bool(event.args) and all(isinstance(value, _PLAIN) for value in values)


@contextlib.contextmanager
def playing(tape: Tape) -> Iterator[Player]:
    """A player at the beginning of the tape. Call it when nothing is being traced."""
    with upstream.stage(tape.settings):
        yield Player(tape)


def replay(tape: Tape, upto: int | None = None, without: Collection[int] = ()) -> ShapeEnv:
    """A fresh ShapeEnv after the first ``upto`` events, or all; events ``without`` are left out."""
    with playing(tape) as player:
        return advance(player, upto, without)


def advance(player: Player, upto: int | None = None, without: Collection[int] = ()) -> ShapeEnv:
    """Replay until ``upto`` events have been replayed or left out."""
    count = len(player.tape.events)
    end = count if upto is None else min(upto, count)
    while player.position < end:
        if player.position in without:
            player.skip()
        else:
            player.step()
    return player.env


@dataclass(frozen=True)
class Condition:
    """A guard on sizes: as it was made, with what is known now, and in the user's words."""

    expression: str
    simplified: str
    words: str


@dataclass(frozen=True)
class GuardState:
    """The guards at one point. ``checks`` is the Python that Dynamo would check; ``violation``
    says why there is none."""

    index: int
    conditions: tuple[Condition, ...]
    checks: tuple[str, ...]
    violation: str = ""


def guards_at(tape: Tape, upto: int | None = None) -> GuardState:
    """The guards that a compilation would have if it ended after the first ``upto`` events."""
    end = len(tape.events) if upto is None else min(upto, len(tape.events))
    with playing(tape) as player:
        env = advance(player, end)
        names = words.names_of(env)
        conditions = tuple(
            Condition(
                str(guard.expr), str(env.simplify(guard.expr)), words.expression(guard.expr, names)
            )
            for guard in env.guards
        )
        tracked = next(
            (event.tracked_fakes for event in reversed(tape.events[:end]) if event.tracked_fakes),
            None,
        )
        if tracked is None:
            return GuardState(end, conditions, ())
        try:
            checks = env.produce_guards(
                [_of_env(item.fake, env) for item in tracked],
                [item.source for item in tracked],
                input_contexts=[player._fresh(item.symbolic_context) for item in tracked],
            )
        except ConstraintViolationError as error:
            return GuardState(end, conditions, (), str(error).strip())
        except Exception as error:
            raise ReplayError(
                end - 1,
                tape.method(end - 1),
                f"no guards can be made after it: {type(error).__name__}: {error}.",
            ) from error
        return GuardState(end, conditions, tuple(in_user_words(text) for text in checks))


def _of_env(fake: Any, env: ShapeEnv) -> Any:
    """The same sizes, of another ShapeEnv."""
    if isinstance(fake, FakeTensorMeta):
        return FakeTensorMeta(
            tuple(_of_env(size, env) for size in fake.size()),
            tuple(_of_env(size, env) for size in fake.stride()),
            _of_env(fake.storage_offset(), env),
            fake.is_nested,
        )
    if isinstance(fake, (torch.SymInt, torch.SymFloat)):
        return type(fake)(fake.node.with_shape_env(env))
    return fake


def resolved(env: ShapeEnv, symbol: sympy.Symbol) -> sympy.Expr:
    """What a symbol stands for by now, without changing the ShapeEnv."""
    value: sympy.Expr = symbol
    for _ in range(len(env.replacements) + 1):
        following = value.xreplace(env.replacements)
        if following == value:
            break
        value = following
    return value
