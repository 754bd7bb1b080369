"""Why a symbol has the value, the range or the partner that it has.

The history of the tape says after which event the fact first holds. Then those earlier events are
sought by experiment that it does not come about without, by leaving others out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sympy  # type: ignore[import-untyped]

from ..protocol import Frame
from ..protocol.sources import in_user_words
from ..torch_internals.shapes import Source, TensorProperty, TensorPropertySource, symbol_hints
from . import upstream, words
from .replay import OutOfTime, ReplayError, advance, playing, resolved
from .symbol_history import SymbolCourse, SymbolHistory, follow
from .tape import Tape
from .upstream import ShapeEnv

FactKind = Literal["value", "equal", "range", "guard"]
"""A number, another size, narrower bounds, or only a condition that is checked."""

_MAKES = frozenset(
    {
        "evaluate_expr",
        "guard_or_defer_runtime_assert",
        "_constrain_range",
        "_constrain_range_for_size",
        "_constrain_unify",
        "_constrain_is_bounded",
        "_eliminate_unbacked",
        "_rename_unbacked_to",
        "_find",
        "_record_exclusion_constraint",
        "set_real_tensor_prop_unbacked_vals",
    }
)
"""Events that decide something about symbols that exist. Everything else is kept in every
experiment: without its creation, a symbol cannot be asked about."""


@dataclass(frozen=True)
class Step:
    """One event of a chain. ``frame`` is the line of the program, ``code`` the text there."""

    index: int
    words: str
    frame: Frame | None
    code: str = ""
    operator: str = ""


@dataclass(frozen=True)
class Explanation:
    """``steps`` are in order and end with the event after which the fact holds."""

    symbol: str
    source: str
    kind: FactKind
    value: str
    steps: tuple[Step, ...]
    created: Step
    text: str
    unexplained: str = ""
    """Why the chain may not be the shortest; empty if it is."""


@dataclass(frozen=True)
class Violation:
    """A dimension that was marked dynamic and is not."""

    source: str
    words: str
    explanation: Explanation


@dataclass(frozen=True)
class _Fact:
    kind: FactKind
    value: Any

    def holds(self, env: ShapeEnv, symbol: sympy.Symbol) -> bool:
        if symbol not in env.var_to_range:
            return False
        if self.kind == "guard":
            return any(guard.expr == self.value for guard in env.guards)
        if self.kind == "range":
            bounds = env.var_to_range[symbol]
            return bool(bounds.issubset(self.value))
        return bool(resolved(env, symbol) == self.value)

    def since(self, history: SymbolHistory, known: SymbolCourse) -> int:
        """The event after which it held first."""
        if self.kind == "guard":
            return next(index for index, expr in history.guards if expr == self.value)
        if self.kind == "range":
            return next(at for at, bounds in known.ranges if bounds.issubset(self.value))
        return next(index for index, value in known.values if value == self.value)


def explain(
    tape: Tape, symbol: str, kind: FactKind | None = None, history: SymbolHistory | None = None
) -> Explanation | None:
    """Why ``symbol`` is a constant, equals another size, has a narrowed range or a guard.

    Without ``kind``: the strongest of these. None where nothing of the kind is true of it. Whoever
    asks more than once has :func:`follow` make the ``history`` of the tape once.
    Raises :class:`ReplayError` where the tape cannot be replayed, and :class:`OutOfTime` where
    time runs out before anything is known; later the explanation says what it leaves open.
    """
    history = history or follow(tape)
    env, known = history.env, history.symbols.get(symbol)
    if known is None:
        return None
    variable, made = known.symbol, known.made
    with upstream.stage(tape.settings):
        fact = _fact(env, known, kind)
    if fact is None:
        return None
    names = words.names_of(env)
    values = dict(symbol_hints(env))
    source = _source_of(env, variable)
    pinned = fact.since(history, known)
    changing = [index for index in history.changing if index <= pinned]
    try:
        needed, unexplained = _needed(tape, changing, lambda env: fact.holds(env, variable))
    except OutOfTime:
        needed = []
        unexplained = "Time ran out before earlier lines that matter as well could be looked for."
    steps = tuple(_step(tape, number, names, values) for number in [*needed, pinned])
    created = Step(
        made,
        f"created at {words.place_in_words(source)}" if source else "made while it was traced",
        tape.places[made].frame,
        words.source_text(tape.places[made].frame),
        words.operator_in_words(tape.places[made].operator, _shown(values)),
    )
    value = _value_in_words(fact, names)
    shown = in_user_words(source) if source else symbol
    text = _text(tape, symbol, shown, fact, value, steps, created)
    return Explanation(symbol, shown, fact.kind, value, steps, created, text, unexplained)


def final_value(tape: Tape, symbol: str) -> str:
    """The number or expression that a symbol ended as; empty if the tape does not know it.

    Asks the ShapeEnv itself where it is still there, so that nothing is replayed.
    """
    if tape.live is not None:
        return _final_value(tape.live, symbol)
    with playing(tape) as player:
        return _final_value(advance(player), symbol)


def _final_value(env: ShapeEnv, symbol: str) -> str:
    known = next((known for known in env.var_to_range if str(known) == symbol), None)
    return "" if known is None else str(resolved(env, known))


def explain_all(tape: Tape) -> tuple[Explanation, ...]:
    """An explanation for every symbol that is a constant or equals another by now."""
    history = follow(tape)
    pinned = [
        name for name, known in history.symbols.items() if known.values[-1][1] != known.symbol
    ]
    explained = (explain(tape, name, history=history) for name in pinned)
    return tuple(found for found in explained if found is not None)


def violations(tape: Tape) -> tuple[Violation, ...]:
    """Dimensions that ``mark_dynamic`` asked to be dynamic and that the code pins."""
    asked: dict[str, str] = {}
    history = follow(tape)
    for index in range(1, len(tape.events)):
        for name in _constrained(tape, index):
            symbol = history.env.source_to_var.get(name)
            if symbol is not None and resolved(history.env, symbol).is_number:
                asked[name] = str(symbol)
    found = []
    for name, symbol_name in asked.items():
        explanation = explain(tape, symbol_name, "value", history)
        if explanation is not None:
            shown = in_user_words(name)
            text = f"`{shown}` is marked dynamic, but {explanation.text}"
            found.append(Violation(shown, text, explanation))
    return tuple(found)


def _constrained(tape: Tape, index: int) -> list[str]:
    """The sources of dimensions that an event creates with a constraint."""
    event = tape.events[index]
    values = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    source = next((value for value in values if isinstance(value, Source)), None)
    context = next((value for value in values if hasattr(value, "constraint_sizes")), None)
    if source is None or context is None or tape.method(index) == "create_symbol":
        return []
    return [
        upstream.name_of_source(TensorPropertySource(source, TensorProperty.SIZE, axis))
        for axis, constraint in enumerate(context.constraint_sizes or ())
        if constraint is not None and not getattr(constraint, "warn_only", False)
    ]


# -- the search -------------------------------------------------------------------------------


def _fact(env: ShapeEnv, known: SymbolCourse, kind: FactKind | None) -> _Fact | None:
    symbol = known.symbol
    value = resolved(env, symbol)
    if value.is_number:
        return _Fact("value", value) if kind in (None, "value") else None
    if value != symbol and kind in (None, "equal"):
        return _Fact("equal", value)
    bounds = known.ranges[-1][1]
    if bounds != known.ranges[0][1] and kind in (None, "range"):
        return _Fact("range", bounds)
    if kind in (None, "guard"):
        left = [
            guard.expr
            for guard in env.guards
            if symbol in guard.expr.free_symbols and env.simplify(guard.expr) != sympy.true
        ]
        if left:  # an equation says more than the inequalities around it
            return _Fact("guard", next((expr for expr in left if expr.is_Equality), left[0]))
    return None


_EXPERIMENTS = 400
"""Replays that one explanation may cost."""


def _needed(
    tape: Tape, numbers: list[int], holds: Callable[[ShapeEnv], bool]
) -> tuple[list[int], str]:
    """The fewest of these decisions with which the last of them still leads to the fact."""
    short = _part(tape, numbers)
    if not _leads_to(short, (), holds):
        # Something without a visible effect matters, such as guards that were suppressed.
        numbers = list(range(numbers[-1] + 1))
        short = _part(tape, numbers)
    decisions = [at for at in range(1, len(numbers) - 1) if short.method(at) in _MAKES]
    left = _EXPERIMENTS

    def enough(kept: Sequence[int]) -> bool:
        nonlocal left
        left -= 1
        return _leads_to(short, set(decisions).difference(kept), holds)

    kept = _minimized(decisions, enough, lambda: left > 0)
    note = ""
    if left <= 0:
        note = f"The search ended after {_EXPERIMENTS} replays: some steps may not be needed."
    return [numbers[at] for at in kept], note


def _leads_to(tape: Tape, without: Collection[int], holds: Callable[[ShapeEnv], bool]) -> bool:
    try:
        with playing(tape) as player:
            return holds(advance(player, without=without))
    except ReplayError:
        return False


def _minimized(
    items: list[int], enough: Callable[[Sequence[int]], bool], may_go_on: Callable[[], bool]
) -> list[int]:
    """Delta debugging: none can be left out of the result."""
    if not items or enough(()):
        return []
    kept, parts = items, 2
    while len(kept) > 1 and may_go_on():
        size = max(1, len(kept) // parts)
        pieces = [kept[start : start + size] for start in range(0, len(kept), size)]
        for piece in reversed(pieces):
            rest = [item for item in kept if item not in piece]
            if may_go_on() and enough(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept


def _part(tape: Tape, numbers: list[int]) -> Tape:
    return Tape(
        tape.index,
        [tape.events[number] for number in numbers],
        [tape.places[number] for number in numbers],
        settings=tape.settings,
    )


# -- words ------------------------------------------------------------------------------------


def _source_of(env: ShapeEnv, symbol: sympy.Symbol) -> str:
    sources = env.var_to_sources.get(symbol)
    if sources:
        return upstream.name_of_source(sources[0])
    return next((name for name, known in env.source_to_var.items() if known == symbol), "")


def _step(tape: Tape, index: int, names: dict[str, str], values: dict[Any, Any]) -> Step:
    place = tape.places[index]
    return Step(
        index,
        _condition(tape, index, names, values),
        place.frame,
        words.source_text(place.frame),
        words.operator_in_words(place.operator, _shown(values)),
    )


def _condition(tape: Tape, index: int, names: dict[str, str], values: dict[Any, Any]) -> str:
    """What an event decided: ``x.shape[1] == 16`` had to hold."""
    event = tape.events[index]
    method = tape.method(index)
    about = (event.args or [None, None])[1:2]
    expr: Any = about[0] if about else None
    if not isinstance(expr, sympy.Basic):
        return f"`{method}` was called"
    shown = words.expression(expr, names)
    if method == "guard_or_defer_runtime_assert":
        return f"`{shown}` was checked"
    if method == "evaluate_expr":
        if not (expr.is_Boolean or expr.is_Relational):
            return f"the value of `{shown}` was asked for"
        if expr.xreplace(values) == sympy.false:
            return f"`{words.expression(sympy.Not(expr), names)}` was assumed"
        return f"`{shown}` had to hold"
    return f"`{shown}` was constrained"


def _shown(values: dict[Any, Any]) -> dict[str, str]:
    return {str(symbol): str(value) for symbol, value in values.items()}


def _value_in_words(fact: _Fact, names: dict[str, str]) -> str:
    if fact.kind == "range":
        return f"[{fact.value.lower}, {fact.value.upper}]"
    return words.expression(fact.value, names)


def _text(
    tape: Tape,
    symbol: str,
    shown: str,
    fact: _Fact,
    value: str,
    steps: tuple[Step, ...],
    created: Step,
) -> str:
    def line_of(step: Step) -> str:
        frame = step.frame
        if frame is None:
            return ""
        other = f" of {Path(frame.path).name}" if frame.path != tape.path else ""
        return f"line {frame.line + 1}{other}"

    last = steps[-1]
    name = f"`{symbol}`" if shown == symbol else f"`{shown}` ({symbol})"
    match fact.kind:
        case "value":
            what = f"{name} became {value}"
        case "equal":
            what = f"{name} became equal to `{value}`"
        case "guard":
            what = f"{name} got the condition `{value}`"
        case _:
            what = f"{name} was narrowed to {value}"
    line = f" at {line_of(last)}" if last.frame is not None else ""
    code = f" in `{last.code}`" if last.code else ""
    operator = f" ({last.operator})" if last.operator else ""
    earlier = [
        f"{step.words}{f' at {line_of(step)}' if step.frame is not None else ''}"
        for step in steps[:-1]
    ]
    before = f", after {' and '.join(earlier)}" if earlier else ""
    where = f", {line_of(created)}" if created.frame is not None else ""
    return f"{what}{line} because {last.words}{code}{operator}{before}; {created.words}{where}."
