"""Documents about ShapeEnv events: what each source line decided, and how a later run differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..shapes import Effect, OutOfTime, ReplayBudget, ReplayError, Tape, Timeline, TimelineEvent
from ..shapes.explanation import explain_all
from .places import PlaceFormatter


def timeline_text(timeline: Timeline, places: PlaceFormatter) -> str:
    """Write the events in order, below the source lines during which they happened.

    Events without symbols are only bookkeeping: the text ends with their number. Without other
    events, it is empty.
    """
    shown = [event for event in timeline.events if event.symbols or event.effects]
    if not shown and not timeline.note:
        return ""
    lines = list(_event_lines(shown, places))
    if hidden_count := len(timeline.events) - len(shown):
        lines += ["", f"{hidden_count:,} more events are about no symbolic size."]
    if timeline.note:
        lines += ["", timeline.note]
    return "\n".join(lines) + "\n"


def explanations_text(tape: Tape, budget: ReplayBudget) -> str:
    """Explain why sizes became constants or equal; empty if none did, or if time ran out."""
    try:
        with budget.spend_time():
            found = explain_all(tape)
    except (OutOfTime, ReplayError):
        return ""
    return "\n\n".join(explanation.text for explanation in found)


def archive_tape(tape: Tape) -> str:
    """Return events as JSON for :func:`comparison_text` in a later run, with a note about gaps."""
    from ..shapes import archive, comparison

    note = ""
    try:
        missing = comparison.find_missing(tape, tape.live) if tape.live is not None else None
        if missing is not None:
            note = f"After event {missing.after} the recording lacks {missing.words}."
    except ReplayError as error:
        note = str(error)
    return archive.write_tape(dataclasses.replace(tape, note=f"{tape.note} {note}".strip()))


def comparison_text(saved: str, tape: Tape, places: PlaceFormatter) -> tuple[str, bool]:
    """Compare events with the events of an earlier run; return the text and whether they differ.

    Events count as equal if both runs end with the same symbols, guards and runtime asserts.
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
        frame = places.innermost_frame(tape.places[found.index].stack)
        lines += [f"  {places.describe_line(frame)}"] if frame is not None else []
    lines += [
        f"  {item.field}: {item.left or 'nothing'} before, {item.right or 'nothing'} now"
        for item in found.differences
    ]
    return "\n".join([*lines, *notes]) + "\n", True


_DIFFERENCE = {
    "dropped": "is no longer there",
    "added": "is new",
    "changed": "is another one than before",
}


def _event_lines(events: list[TimelineEvent], places: PlaceFormatter) -> Iterator[str]:
    last, operator = "", ""
    for event in events:
        frame = places.innermost_frame(event.stack)
        where = (
            places.describe_line(frame) if frame is not None else "outside of the program's lines"
        )
        if where != last:
            if last:
                yield ""
            yield where
            last, operator = where, ""
        if event.operator is not None and event.operator.name != operator:
            operator = event.operator.name
            yield f"    {operator}"
        yield f"  {event.index:>5}  {event.words}"
        yield from (f"         {words}" for words in _effect_lines(event))


def _effect_lines(event: TimelineEvent) -> Iterator[str]:
    hints = dict(event.hints)
    for effect in event.effects:
        if effect.kind == "symbol" and effect.symbol in hints:
            yield f"new symbol: {_insert_hint(effect, hints[effect.symbol])}"
        elif effect.kind == "symbol":
            yield f"new symbol: {effect.words}"
        elif effect.kind == "guard" or effect.words not in event.words:
            yield f"{effect.kind}: {effect.words}"


def _insert_hint(effect: Effect, hint: str) -> str:
    return effect.words.replace(effect.symbol, f"{effect.symbol} = {hint},", 1)
