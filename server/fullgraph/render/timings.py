"""Where the time of a check went, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fullgraph.domain.phrases import amount, duration
from fullgraph.render import cells
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import Timings, to_plain

_MOST_FRAMES = 10
"""Lines about frames below one run; the JSON has them all."""
_MOST_DYNAMO = 6
_WIDTH = 14


def timings_text(timings: Sequence[Timings], paint: Paint = PLAIN) -> str:
    """A table for the file, then one for each run: a phase in each row."""
    ordered = sorted(timings, key=lambda one: one.run is not None)
    return "\n".join(line for one in ordered for line in _lines(one, paint))


def _lines(one: Timings, paint: Paint) -> list[str]:
    rows = [paint(Style.STRONG, _name(one)) + paint(Style.DIM, f", {duration(one.seconds)}")]
    rows += [
        f"  {phase.phase:<{_WIDTH}}{duration(phase.seconds):>10}"
        + paint(Style.DIM, f"  processor {duration(phase.cpu)}" if phase.cpu else "")
        for phase in one.phases
    ]
    rows += _frames(one)
    if one.cache_misses is not None:
        missing = amount(one.cache_misses, "operator call")
        rows.append(paint(Style.DIM, f"  {missing} not in the cache of fake tensors"))
    if one.dynamo:
        longest = one.dynamo[:_MOST_DYNAMO]
        words = ", ".join(
            f"{cells.printable(name.name)} {duration(name.seconds)}" for name in longest
        )
        rows.append(paint(Style.DIM, f"  Dynamo: {words}"))
    return rows


def _name(one: Timings) -> str:
    if one.run is None:
        return "Request"
    part = "" if one.run.part == "first" else f", part {one.run.part}"
    probe = f", probe {one.run.probe + 1}" if one.run.probe else ""
    mode = ", real tensors" if one.attempt == "real" else ""
    return f"{cells.printable(one.run.target)}{probe}{part}{mode}"


def _frames(one: Timings) -> list[str]:
    """The frames that took longest, each with all its compilations."""
    found: dict[tuple[str, int], list[float]] = {}
    for frame in one.frames:
        found.setdefault((frame.function, frame.line), []).append(frame.seconds)
    longest = sorted(found.items(), key=lambda item: -sum(item[1]))[:_MOST_FRAMES]
    rows = [
        f"    frame {cells.printable(name)}, line {line + 1}: {duration(sum(taken))}"
        + (f", {amount(len(taken), 'compilation')}" if len(taken) > 1 else "")
        for (name, line), taken in longest
    ]
    left = len(found) - len(rows)
    return [*rows, f"    and {amount(left, 'more frame')}"] if left > 0 else rows


def timings_json(one: Timings) -> dict[str, Any]:
    """Times in seconds; ``target`` is null for the request as a whole."""
    plain = to_plain(one)
    run = one.run
    return {
        "target": run.target if run is not None else None,
        "probe": run.probe if run is not None else None,
        "part": run.part if run is not None else None,
        "mode": one.attempt or None,
        "seconds": one.seconds,
        "phases": plain.get("phases", []),
        "frames": plain.get("frames", []),
        "dynamo": plain.get("dynamo", []),
        "cache_misses": one.cache_misses,
    }
