"""What a ShapeEnv learned, line by line of the program."""

from __future__ import annotations

from collections.abc import Iterator

from ..shapes import Effect, Event, Timeline
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


def _lines(events: list[Event], places: Places) -> Iterator[str]:
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


def _effects(event: Event) -> Iterator[str]:
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
