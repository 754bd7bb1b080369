"""Explanations of how a symbolic size got its value or range, or became equal to another symbol.

The symbol's history says after which event this fact is first true. The search then replays the
recorded events without some of the earlier ones, to find the events on which the fact depends.
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
from .replay import OutOfTime, ReplayError, replay_until, resolve_symbol, start_replay
from .symbol_history import SymbolHistory, SymbolRecord, follow_tape
from .tape import Tape
from .upstream import ShapeEnv

FactKind = Literal["value", "equal", "range", "guard"]
"""Kind of fact to explain about a symbolic size.

``value``: it is a constant. ``equal``: it equals another size. ``range``: its range is narrowed.
``guard``: it only has a guard.
"""

_DECISIONS = frozenset(
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
"""Names of ShapeEnv methods whose events decide something about existing symbols.

The search leaves out only such events. Other events must stay: without the event that creates a
symbol, its value cannot be looked up.
"""


@dataclass(frozen=True)
class Step:
    """One event of a ShapeEnv in an explanation; ``frame`` is the user's frame that caused the
    event.

    ``code`` is the source code at that frame.
    """

    index: int
    words: str
    frame: Frame | None
    code: str = ""
    operator: str = ""


@dataclass(frozen=True)
class Explanation:
    """The events that explain why a symbolic size has a value, a range or an equal size.

    The last of its ``steps`` is the event after which this is true.
    """

    symbol: str
    source: str
    kind: FactKind
    value: str
    steps: tuple[Step, ...]
    created: Step
    text: str
    unexplained: str = ""
    """Reason why a shorter explanation may exist, as a sentence; empty if none can be shorter."""


@dataclass(frozen=True)
class Violation:
    """A dimension that the user marked as dynamic but that the code specialized."""

    source: str
    words: str
    explanation: Explanation


@dataclass(frozen=True)
class _SymbolFact:
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
        return bool(resolve_symbol(env, symbol) == self.value)

    def first_event(self, history: SymbolHistory, known: SymbolRecord) -> int:
        """Return the index of the event after which the explained value, range or equality is true.

        ``history`` covers all symbols. ``known`` is the record of the explained symbol in it.
        """
        if self.kind == "guard":
            return next(index for index, expr in history.guards if expr == self.value)
        if self.kind == "range":
            return next(at for at, bounds in known.ranges if bounds.issubset(self.value))
        return next(index for index, value in known.values if value == self.value)


def explain_symbol(
    tape: Tape, symbol: str, kind: FactKind | None = None, history: SymbolHistory | None = None
) -> Explanation | None:
    """Explain why a symbolic size is a constant, equals another size, is limited or has a guard.

    ``kind`` selects which of these; without it, the strongest true one is explained. Returns None
    if none is true. To explain several symbols, create the ``history`` once with
    :func:`follow_tape`.

    Raises:
        ReplayError: The recorded events cannot be replayed.
        OutOfTime: The time ran out before anything was known. If it runs out later, the explanation
            is incomplete and says so.
    """
    history = history or follow_tape(tape)
    env, known = history.env, history.symbols.get(symbol)
    if known is None:
        return None
    variable, created_at = known.symbol, known.created_at
    with upstream.apply_settings(tape.settings):
        fact = _find_fact(env, known, kind)
    if fact is None:
        return None
    names = words.input_names(env)
    values = dict(symbol_hints(env))
    source = _source_of(env, variable)
    fact_event = fact.first_event(history, known)
    changing = [index for index in history.changing if index <= fact_event]
    try:
        needed, unexplained = _find_needed_events(
            tape, changing, lambda env: fact.holds(env, variable)
        )
    except OutOfTime:
        needed = []
        unexplained = "The time limit was reached before all lines that matter were found."
    steps = tuple(_describe_step(tape, number, names, values) for number in [*needed, fact_event])
    created = Step(
        created_at,
        f"created at {words.place_in_words(source)}" if source else "created during tracing",
        tape.places[created_at].frame,
        words.source_text(tape.places[created_at].frame),
        words.operator_in_words(tape.places[created_at].operator, _symbol_values(values)),
    )
    value = _format_value(fact, names)
    shown = in_user_words(source) if source else symbol
    text = _explanation_text(tape, symbol, shown, fact, value, steps, created)
    return Explanation(symbol, shown, fact.kind, value, steps, created, text, unexplained)


def final_value(tape: Tape, symbol: str) -> str:
    """Return the number or expression that ``symbol`` was resolved to; empty for an unknown symbol.

    The result comes from the live ShapeEnv if the recording still has one, so that events need not
    be replayed.
    """
    if tape.live is not None:
        return _final_value(tape.live, symbol)
    with start_replay(tape) as player:
        return _final_value(replay_until(player), symbol)


def _final_value(env: ShapeEnv, symbol: str) -> str:
    known = next((known for known in env.var_to_range if str(known) == symbol), None)
    return "" if known is None else str(resolve_symbol(env, known))


def explain_all(tape: Tape) -> tuple[Explanation, ...]:
    """Explain every symbolic size that ended as a constant or equal to another size."""
    history = follow_tape(tape)
    specialized = [
        name for name, known in history.symbols.items() if known.values[-1][1] != known.symbol
    ]
    explained = (explain_symbol(tape, name, history=history) for name in specialized)
    return tuple(found for found in explained if found is not None)


def find_violations(tape: Tape) -> tuple[Violation, ...]:
    """Find dimensions that the user marked with ``mark_dynamic`` but that the code specialized."""
    specialized: dict[str, str] = {}
    history = follow_tape(tape)
    for index in range(1, len(tape.events)):
        for name in _constrained_sources(tape, index):
            symbol = history.env.source_to_var.get(name)
            if symbol is not None and resolve_symbol(history.env, symbol).is_number:
                specialized[name] = str(symbol)
    found = []
    for name, symbol_name in specialized.items():
        explanation = explain_symbol(tape, symbol_name, "value", history)
        if explanation is not None:
            shown = in_user_words(name)
            text = f"`{shown}` is marked dynamic, but {explanation.text}"
            found.append(Violation(shown, text, explanation))
    return tuple(found)


def _constrained_sources(tape: Tape, index: int) -> list[str]:
    """Return the sources of dimensions that must stay dynamic, if this event creates their symbols.

    ``index`` is the number of the event.
    """
    event = tape.events[index]
    values = [*(event.args or [])[1:], *(event.kwargs or {}).values()]
    source = next((value for value in values if isinstance(value, Source)), None)
    context = next((value for value in values if hasattr(value, "constraint_sizes")), None)
    if source is None or context is None or tape.method_name(index) == "create_symbol":
        return []
    return [
        upstream.name_of_source(TensorPropertySource(source, TensorProperty.SIZE, axis))
        for axis, constraint in enumerate(context.constraint_sizes or ())
        if constraint is not None and not getattr(constraint, "warn_only", False)
    ]


# -- search for the decisions that a fact depends on --------------------------------------------


def _find_fact(env: ShapeEnv, known: SymbolRecord, kind: FactKind | None) -> _SymbolFact | None:
    symbol = known.symbol
    value = resolve_symbol(env, symbol)
    if value.is_number:
        return _SymbolFact("value", value) if kind in (None, "value") else None
    if value != symbol and kind in (None, "equal"):
        return _SymbolFact("equal", value)
    bounds = known.ranges[-1][1]
    if bounds != known.ranges[0][1] and kind in (None, "range"):
        return _SymbolFact("range", bounds)
    if kind in (None, "guard"):
        left = [
            guard.expr
            for guard in env.guards
            if symbol in guard.expr.free_symbols and env.simplify(guard.expr) != sympy.true
        ]
        if left:  # an equation says more than an inequality
            return _SymbolFact("guard", next((expr for expr in left if expr.is_Equality), left[0]))
    return None


_MAX_REPLAYS = 400
"""Maximum number of replays to find one explanation."""


def _find_needed_events(
    tape: Tape, numbers: list[int], holds: Callable[[ShapeEnv], bool]
) -> tuple[list[int], str]:
    """Find a minimal set of earlier events needed to make a condition on the ShapeEnv true.

    Returns their numbers, and a note if the search ended early, else an empty string. ``numbers``
    are the events to replay; the last one makes the condition ``holds`` true.
    """
    tested_tape = _select_events(tape, numbers)
    if not _holds_without(tested_tape, (), holds):
        # Also replay events without a visible effect, since some have a hidden one, such as
        # suppressing guards.
        numbers = list(range(numbers[-1] + 1))
        tested_tape = _select_events(tape, numbers)
    decisions = [
        at for at in range(1, len(numbers) - 1) if tested_tape.method_name(at) in _DECISIONS
    ]
    replays_left = _MAX_REPLAYS

    def is_enough(kept: Sequence[int]) -> bool:
        nonlocal replays_left
        replays_left -= 1
        return _holds_without(tested_tape, set(decisions).difference(kept), holds)

    kept = _minimize_items(decisions, is_enough, lambda: replays_left > 0)
    note = ""
    if replays_left <= 0:
        note = (
            "Some of these lines may not matter, because the search for them stopped at its limit "
            f"of {_MAX_REPLAYS} replays."
        )
    return [numbers[at] for at in kept], note


def _holds_without(tape: Tape, without: Collection[int], holds: Callable[[ShapeEnv], bool]) -> bool:
    try:
        with start_replay(tape) as player:
            return holds(replay_until(player, without=without))
    except ReplayError:
        return False


def _minimize_items(
    items: list[int], is_enough: Callable[[Sequence[int]], bool], may_continue: Callable[[], bool]
) -> list[int]:
    """Return a minimal sublist for which ``is_enough`` is true, by delta debugging.

    The search ends early when ``may_continue`` returns False.
    """
    if not items or is_enough(()):
        return []
    kept, parts = items, 2
    while len(kept) > 1 and may_continue():
        size = max(1, len(kept) // parts)
        pieces = [kept[start : start + size] for start in range(0, len(kept), size)]
        for piece in reversed(pieces):
            rest = [item for item in kept if item not in piece]
            if may_continue() and is_enough(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept


def _select_events(tape: Tape, numbers: list[int]) -> Tape:
    return Tape(
        tape.index,
        [tape.events[number] for number in numbers],
        [tape.places[number] for number in numbers],
        settings=tape.settings,
    )


# -- text ---------------------------------------------------------------------------------------


def _source_of(env: ShapeEnv, symbol: sympy.Symbol) -> str:
    sources = env.var_to_sources.get(symbol)
    if sources:
        return upstream.name_of_source(sources[0])
    return next((name for name, known in env.source_to_var.items() if known == symbol), "")


def _describe_step(tape: Tape, index: int, names: dict[str, str], values: dict[Any, Any]) -> Step:
    place = tape.places[index]
    return Step(
        index,
        _describe_decision(tape, index, names, values),
        place.frame,
        words.source_text(place.frame),
        words.operator_in_words(place.operator, _symbol_values(values)),
    )


def _describe_decision(
    tape: Tape, index: int, names: dict[str, str], values: dict[Any, Any]
) -> str:
    """Describe what an event decided about sizes, such as "``x.shape[1] == 16`` had to be true".

    ``names`` are the user's expressions for symbols, and ``values`` their example values.
    """
    event = tape.events[index]
    method = tape.method_name(index)
    about = (event.args or [None, None])[1:2]
    expr: Any = about[0] if about else None
    if not isinstance(expr, sympy.Basic):
        return f"`{method}` was called"
    shown = words.format_expression(expr, names)
    if method == "guard_or_defer_runtime_assert":
        return f"`{shown}` was checked"
    if method == "evaluate_expr":
        if not (expr.is_Boolean or expr.is_Relational):
            return f"the value of `{shown}` was needed"
        if expr.xreplace(values) == sympy.false:
            return f"`{words.format_expression(sympy.Not(expr), names)}` was assumed"
        return f"`{shown}` had to be true"
    return f"`{shown}` was constrained"


def _symbol_values(values: dict[Any, Any]) -> dict[str, str]:
    return {str(symbol): str(value) for symbol, value in values.items()}


def _format_value(fact: _SymbolFact, names: dict[str, str]) -> str:
    if fact.kind == "range":
        return f"[{fact.value.lower}, {fact.value.upper}]"
    return words.format_expression(fact.value, names)


def _explanation_text(
    tape: Tape,
    symbol: str,
    shown: str,
    fact: _SymbolFact,
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
            fact_words = f"{name} became {value}"
        case "equal":
            fact_words = f"{name} became equal to `{value}`"
        case "guard":
            fact_words = f"{name} was guarded by `{value}`"
        case _:
            fact_words = f"{name} was limited to the range {value}"
    line = f" at {line_of(last)}" if last.frame is not None else ""
    code = f" in `{last.code}`" if last.code else ""
    operator = f" ({last.operator})" if last.operator else ""
    earlier = [
        f"{step.words}{f' at {line_of(step)}' if step.frame is not None else ''}"
        for step in steps[:-1]
    ]
    before = f", after {' and '.join(earlier)}" if earlier else ""
    where = f", {line_of(created)}" if created.frame is not None else ""
    return (
        f"{fact_words}{line} because {last.words}{code}{operator}{before}; {created.words}{where}."
    )
