"""Documents about ShapeEnv events: the decisions about sizes at each source line, and differences
from an earlier run."""

from __future__ import annotations

from collections.abc import Iterator

from ..shapes import (
    Effect,
    OutOfTime,
    ReplayBudget,
    ReplayError,
    Tape,
    Timeline,
    TimelineEvent,
    replay_tape,
)
from ..shapes.explanation import explain_all
from ..shapes.upstream import ShapeEnv
from .places import PlaceFormatter


def timeline_text(timeline: Timeline, places: PlaceFormatter) -> str:
    """Return the ShapeEnv events of a trace as text, in order, each below the source line during
    which it happened.

    Events without symbols are only counted at the end; if all events are without symbols, the text
    is empty. ``places`` formats the names of files and lines.
    """
    shown = [event for event in timeline.events if event.symbols or event.effects]
    if not shown and not timeline.note:
        return ""
    lines = list(_event_lines(shown, places))
    if hidden_count := len(timeline.events) - len(shown):
        lines += [
            "",
            f"{hidden_count:,} more events are not shown, because they do not involve a symbolic "
            "size.",
        ]
    if timeline.note:
        lines += ["", timeline.note]
    return "\n".join(lines) + "\n"


def explanations_text(tape: Tape, budget: ReplayBudget) -> str:
    """Return a text that explains why sizes became constant or equal to other sizes.

    The text is empty if no size did, or if the time in ``budget`` ran out. ``tape`` has the
    recorded ShapeEnv events.
    """
    try:
        with budget.spend_time():
            found = explain_all(tape)
    except (OutOfTime, ReplayError):
        return ""
    return "\n\n".join(explanation.text for explanation in found)


def saved_events(tape: Tape) -> str:
    """Return recorded ShapeEnv events as JSON, for :func:`comparison_text` in a later run."""
    from ..shapes import comparison

    return comparison.save(comparison.summarize(tape, _end_of(tape)))


def _end_of(tape: Tape) -> ShapeEnv:
    """Return the ShapeEnv as it was at the end of a trace, after all recorded events."""
    return replay_tape(tape) if tape.live is None else tape.live


def comparison_text(saved: str, tape: Tape, places: PlaceFormatter) -> tuple[str, bool]:
    """Return a text on how the ShapeEnv events of this run differ from an earlier run, and whether
    anything differs.

    ``saved`` is the result of :func:`saved_events` in the earlier run, and ``tape`` has the events
    of this run. Events count as equal if both runs end with the same symbols, guards and runtime
    assertions.
    """
    from ..shapes import comparison

    try:
        before = comparison.load(saved)
        now = comparison.summarize(tape, _end_of(tape))
    except (comparison.SavedEventsError, ReplayError) as error:
        return f"Cannot compare with the saved events: {error}\n", True
    found = comparison.first_difference(before, now)
    notes = [f"Before: {before.note}"] if before.note else []
    notes += [f"Now: {now.note}"] if now.note else []
    if before.torch != now.torch:
        notes.append(
            f"The saved events come from torch {before.torch}, the new ones from torch {now.torch}."
        )
    if found is None:
        words = (
            f"No difference from the saved events: {len(now.events):,} events with the same guards."
        )
        return "\n".join([words, *notes]) + "\n", False
    lines = [_DIFFERENCE[found.kind].format(index=found.index, event=found.event)]
    if found.kind in ("added", "changed") and found.index < len(tape.places):
        frame = places.innermost_frame(tape.places[found.index].stack)
        lines += [f"  {places.describe_line(frame)}"] if frame is not None else []
    lines += [
        f"  {item.field}: {item.left or 'nothing'} before, {item.right or 'nothing'} now"
        for item in found.differences
    ]
    return "\n".join([*lines, *notes]) + "\n", True


_DIFFERENCE = {
    "dropped": "Event {index} of the saved events is missing from the new events: {event}",
    "added": "Event {index} is not among the saved events: {event}",
    "changed": "Event {index} has changed; the saved event was: {event}",
    "same": "The events are the same, but the symbols, guards or assertions at the end differ:",
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
