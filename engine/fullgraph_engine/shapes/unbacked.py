"""Sizes that only the data know: where they come from, and what is asked about them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]

from ..protocol import Frame
from ..torch_internals.shapes import symbol_hints
from . import words
from .replay import advance, playing
from .tape import EventPlace, Refusal, Tape

_NUMBERS = frozenset({"item", "_local_scalar_dense", "tolist", "__int__", "__index__", "__float__"})
"""Operators whose result is the symbol itself and not a tensor of that size."""

_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound")


@dataclass(frozen=True)
class RuntimeCheck:
    """A condition that is checked when the graph runs, and the line that asks for it."""

    index: int
    words: str
    frame: Frame | None


@dataclass(frozen=True)
class Unbacked:
    """A symbol without a value. ``name`` is what the program calls it, as far as can be told."""

    symbol: str
    name: str
    index: int
    frame: Frame | None
    code: str
    checks: tuple[RuntimeCheck, ...] = ()


@dataclass(frozen=True)
class DataDependent:
    """A question that cannot be answered while tracing.

    ``settles`` are the two lines of which one, written before ``frame``, answers it.
    """

    words: str
    frame: Frame | None
    code: str
    symbols: tuple[Unbacked, ...]
    settles: tuple[str, str]
    text: str


def unbacked(tape: Tape) -> tuple[Unbacked, ...]:
    """Every unbacked symbol of a tape, in the order in which they were made."""
    made: dict[str, int] = {}
    deferred: list[tuple[int, sympy.Basic]] = []
    with playing(tape) as player:
        for index in range(1, len(tape.events)):
            player.step()
            env = player.env
            for symbol in env.var_to_range:
                if symbol not in symbol_hints(env):
                    made.setdefault(str(symbol), index)
            every = [item for items in env.deferred_runtime_asserts.values() for item in items]
            if len(every) > len(deferred):
                known = {id(expr) for _, expr in deferred}
                deferred += [(index, item.expr) for item in every if id(item.expr) not in known]
        names = words.names_of(player.env)
    names.update({s: _name(tape.places[n], s) for s, n in made.items() if s not in names})
    found = []
    for symbol_name, index in made.items():
        place = tape.places[index]
        found.append(
            Unbacked(
                symbol_name,
                names[symbol_name],
                index,
                place.frame,
                words.source_text(place.frame),
                tuple(
                    RuntimeCheck(at, words.expression(expr, names), tape.places[at].frame)
                    for at, expr in deferred
                    if symbol_name in {str(symbol) for symbol in expr.free_symbols}
                ),
            )
        )
    return tuple(found)


def data_dependent(tape: Tape) -> tuple[DataDependent, ...]:
    """The questions about unbacked symbols that ended a trace, each with what would settle it."""
    refusals = [r for r in tape.refusals if r.error in _DATA_DEPENDENT and r.expression is not None]
    if not refusals:
        return ()
    known = {item.symbol: item for item in unbacked(tape)}
    with playing(tape) as player:
        names = words.names_of(advance(player))
    names.update({item.symbol: item.name for item in known.values()})
    return tuple(_question(refusal, known, names) for refusal in refusals)


def _question(refusal: Refusal, known: dict[str, Unbacked], names: dict[str, str]) -> DataDependent:
    expr = refusal.expression
    shown = words.expression(expr, names)
    if expr.is_Boolean or expr.is_Relational:
        settles = (
            f"torch._check({shown})",
            f"torch._check({words.expression(sympy.Not(expr), names)})",
        )
    else:
        settles = (f"torch._check({shown} == …)", f"torch._check({shown} >= …)")
    about = tuple(known[s] for s in sorted(str(s) for s in expr.free_symbols) if s in known)
    frame = refusal.place.frame
    code = words.source_text(frame)
    line = f" at line {frame.line + 1}" if frame is not None else ""
    origin = "; ".join(
        f"`{item.name}` comes from `{item.code}`"
        + (f", line {item.frame.line + 1}" if item.frame is not None else "")
        for item in about
    )
    text = (
        f"Whether `{shown}` holds is asked{line}{f' in `{code}`' if code else ''}, and only the "
        f"data know{f'; {origin}' if origin else ''}. `{settles[0]}` or `{settles[1]}` before it "
        "settles that."
    )
    return DataDependent(shown, frame, code, about, settles, text)


def _name(place: EventPlace, symbol: str) -> str:
    operator = place.operator
    code = words.source_text(place.frame)
    assigned = words.assigned_name(place.frame)
    number = operator is None or operator.name in _NUMBERS or ".item(" in code
    if assigned:
        return assigned if number else f"{assigned}.shape[0]"
    if code and re.fullmatch(r"[\w.\[\]()'\", ]+", code):
        return code if number else f"{code}.shape[0]"
    return symbol
