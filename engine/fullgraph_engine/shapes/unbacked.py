"""Unbacked sizes: where they come from, and which conditions on them the code checks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]

from ..protocol import Frame
from ..torch_internals.shapes import symbol_hints
from . import upstream, words
from .replay import replay_until, start_replay
from .tape import EventPlace, FailedEvent, Tape

_SCALAR_OPERATORS = frozenset(
    {"item", "_local_scalar_dense", "tolist", "__int__", "__index__", "__float__"}
)
"""Operators whose result is an unbacked symbol, and not a tensor with a dimension of that size."""

_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound")


@dataclass(frozen=True)
class RuntimeCheck:
    """A condition that the compiled graph checks when it runs, with the source line that
    needs it."""

    index: int
    words: str
    frame: Frame | None


@dataclass(frozen=True)
class UnbackedSymbol:
    """A size known only when the graph runs; ``name`` is the program's expression for it, or
    empty."""

    symbol: str
    name: str
    index: int
    frame: Frame | None
    code: str
    checks: tuple[RuntimeCheck, ...] = ()


@dataclass(frozen=True)
class DataDependentCondition:
    """A condition on unbacked symbols that Dynamo cannot decide while tracing.

    ``torch_checks`` are two ``torch._check`` lines. Either one decides the condition if the user
    inserts it before the line of ``frame``.
    """

    words: str
    frame: Frame | None
    code: str
    symbols: tuple[UnbackedSymbol, ...]
    torch_checks: tuple[str, str]
    text: str


def find_unbacked(tape: Tape) -> tuple[UnbackedSymbol, ...]:
    """Return the unbacked symbols (sizes that depend on data) in a recording, in order of
    creation.
    """
    made: dict[str, int] = {}
    deferred: list[tuple[int, sympy.Basic]] = []
    with start_replay(tape) as player:
        for index in range(1, len(tape.events)):
            player.step()
            env = player.env
            for symbol in env.var_to_range:
                if symbol not in symbol_hints(env):
                    made.setdefault(str(symbol), index)
            asserts = upstream.runtime_asserts(env)
            if len(asserts) > len(deferred):
                known = {id(expr) for _, expr in deferred}
                deferred += [(index, item.expr) for item in asserts if id(item.expr) not in known]
        names = words.input_names(player.env)
    names.update({s: _symbol_name(tape.places[n], s) for s, n in made.items() if s not in names})
    found = []
    for symbol_name, index in made.items():
        place = tape.places[index]
        found.append(
            UnbackedSymbol(
                symbol_name,
                names[symbol_name],
                index,
                place.frame,
                words.source_text(place.frame),
                tuple(
                    RuntimeCheck(at, words.format_expression(expr, names), tape.places[at].frame)
                    for at, expr in deferred
                    if symbol_name in {str(symbol) for symbol in expr.free_symbols}
                ),
            )
        )
    return tuple(found)


def find_data_dependent(tape: Tape) -> tuple[DataDependentCondition, ...]:
    """Return the conditions on unbacked sizes that ended a trace, because Dynamo cannot decide
    them.

    Each has the ``torch._check`` calls that would decide it.
    """
    failed_events = [
        r for r in tape.failed_events if r.error in _DATA_DEPENDENT and r.expression is not None
    ]
    if not failed_events:
        return ()
    known = {item.symbol: item for item in find_unbacked(tape)}
    with start_replay(tape) as player:
        names = words.input_names(replay_until(player))
    names.update({item.symbol: item.name for item in known.values()})
    return tuple(_describe_condition(failed_event, known, names) for failed_event in failed_events)


def _describe_condition(
    failed_event: FailedEvent, known: dict[str, UnbackedSymbol], names: dict[str, str]
) -> DataDependentCondition:
    expr = failed_event.expression
    shown = words.format_expression(expr, names)
    if expr.is_Boolean or expr.is_Relational:
        torch_checks = (
            f"torch._check({shown})",
            f"torch._check({words.format_expression(sympy.Not(expr), names)})",
        )
    else:
        torch_checks = (f"torch._check({shown} == …)", f"torch._check({shown} >= …)")
    about = tuple(known[s] for s in sorted(str(s) for s in expr.free_symbols) if s in known)
    frame = failed_event.place.frame
    code = words.source_text(frame)
    line = f" at line {frame.line + 1}" if frame is not None else ""
    origin = "; ".join(
        f"`{item.name}` comes from `{item.code}`"
        + (f", line {item.frame.line + 1}" if item.frame is not None else "")
        for item in about
    )
    text = (
        f"The code needs the value of `{shown}`{line}{f' in `{code}`' if code else ''}, but this "
        f"value depends on data{f': {origin}' if origin else ''}. "
        f"Write `{torch_checks[0]}` or `{torch_checks[1]}` before this code."
    )
    return DataDependentCondition(shown, frame, code, about, torch_checks, text)


def _symbol_name(place: EventPlace, symbol: str) -> str:
    operator = place.operator
    code = words.source_text(place.frame)
    assigned = words.assigned_name(place.frame)
    number = operator is None or operator.name in _SCALAR_OPERATORS or ".item(" in code
    if assigned:
        return assigned if number else f"{assigned}.shape[0]"
    if code and re.fullmatch(r"[\w.\[\]()'\", ]+", code):
        return code if number else f"{code}.shape[0]"
    return symbol
