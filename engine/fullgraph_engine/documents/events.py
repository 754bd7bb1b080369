"""What a ShapeEnv learned, line by line of the program, and how that differs from before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..shapes import Effect, OutOfTime, ReplayBudget, ReplayError, Tape, Timeline, TimelineEvent
from ..shapes.explanation import explain_all
from .places import Places


def timeline_text(timeline: Timeline, places: Places) -> str:
    """Events in order below the source line during which they happened.

    Most are about no symbol at all, only bookkeeping; how many those were is said at the end.
    Empty where there are no others.
    """
    told = [event for event in timeline.events if event.symbols or event.effects]
    if not told and not timeline.note:
        return ""
    lines = list(_lines(told, places))
    if left := len(timeline.events) - len(told):
        lines += ["", f"{left:,} more events are about no symbolic size."]
    if timeline.note:
        lines += ["", timeline.note]
    return "\n".join(lines) + "\n"


def explanations_text(tape: Tape, budget: ReplayBudget) -> str:
    """Why sizes are constants, or equal others, at the end of the events; empty if none are, or
    if there is no time left to find out."""
    try:
        with budget.spend_time():
            found = explain_all(tape)
    except (OutOfTime, ReplayError):
        return ""
    return "\n\n".join(one.text for one in found)


def archived(tape: Tape) -> str:
    """The events as JSON, for :func:`comparison_text` in a later run. It says what it lacks."""
    from ..shapes import archive, comparison

    note = ""
    try:
        missing = comparison.find_missing(tape, tape.live) if tape.live is not None else None
        if missing is not None:
            note = f"After event {missing.after} the recording lacks {missing.words}."
    except ReplayError as error:
        note = str(error)
    return archive.write_tape(dataclasses.replace(tape, note=f"{tape.note} {note}".strip()))


def comparison_text(saved: str, tape: Tape, places: Places) -> tuple[str, bool]:
    """How events differ from those of an earlier run, and whether they do.

    They are the same if both lead to the same symbols, guards and runtime asserts.
    """
    from ..shapes import archive, comparison

    try:
        before = archive.read_tape(saved)
        found = comparison.find_divergence(before, tape)
    except (archive.ArchiveError, ReplayError) as error:
        return f"It cannot be compared with the saved events: {error}\n", True
    notes = [f"Before: {before.note}"] if before.note else []
    notes += [f"Now: {tape.note}"] if tape.note else []
    if found is None:
        count = len(tape.events)
        words = f"The same as the saved events: {count:,} events lead to the same guards."
        return "\n".join([words, *notes]) + "\n", False
    lines = [f"Event {found.index} {_DIFFERENCE[found.kind]}: {found.words}"]
    if found.kind != "dropped" and found.index < len(tape.places):
        frame = places.innermost(tape.places[found.index].stack)
        lines += [f"  {places.line(frame)}"] if frame is not None else []
    lines += [
        f"  {one.field}: {one.left or 'nothing'} before, {one.right or 'nothing'} now"
        for one in found.differences
    ]
    return "\n".join([*lines, *notes]) + "\n", True


_DIFFERENCE = {
    "dropped": "is no longer there",
    "added": "is new",
    "changed": "is another one than before",
}


def _lines(events: list[TimelineEvent], places: Places) -> Iterator[str]:
    last, operator = "", ""
    for event in events:
        frame = places.innermost(event.stack)
        where = places.line(frame) if frame is not None else "outside of the program's lines"
        if where != last:
            if last:
                yield ""
            yield where
            last, operator = where, ""
        if event.operator is not None and event.operator.name != operator:
            operator = event.operator.name
            yield f"    {operator}"
        yield f"  {event.index:>5}  {event.words}"
        yield from (f"         {words}" for words in _effects(event))


def _effects(event: TimelineEvent) -> Iterator[str]:
    hints = dict(event.hints)
    for effect in event.effects:
        if effect.kind == "symbol" and effect.symbol in hints:
            yield f"new symbol: {_with_hint(effect, hints[effect.symbol])}"
        elif effect.kind == "symbol":
            yield f"new symbol: {effect.words}"
        elif effect.kind == "guard" or effect.words not in event.words:
            yield f"{effect.kind}: {effect.words}"


def _with_hint(effect: Effect, hint: str) -> str:
    return effect.words.replace(effect.symbol, f"{effect.symbol} = {hint},", 1)
