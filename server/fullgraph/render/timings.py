"""Format where a check, or a trace in the editor, spent its time, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, get_args

from fullgraph.domain.phrases import amount, duration
from fullgraph.render import cells
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import Part, Timings, to_plain
from fullgraph_engine.protocol.timings import Phase

_PARTS: tuple[Part, ...] = get_args(Part)
_MOST_FRAMES = 10
"""Maximum number of compiled frames in the text of a run; the JSON has all frames."""
_MOST_DYNAMO = 6
_RUNS = "runs"
"""Name of the table row for the time of a request that does not belong to any of its phases."""
_WIDTH = 14

_PHASES: dict[Phase, str] = {
    "waiting": "behind other requests",
    "process": "starting or forking the process",
    "reading": "parsing the text and looking for targets",
    "imports": "executing the imports at the top of the file",
    "staying": "preparing a process for later versions of the file",
    "module": "executing the rest of the file",
    "planning": "looking for probes",
    "inputs": "making the inputs of a target",
    "trace": "calling the target with Dynamo",
    "findings": "deriving the findings",
    "sending": "reporting it",
}


def timings_document(path: str, timings: Sequence[Timings], *, current: bool) -> str:
    """Format the document that shows where the last trace of a file spent its time.

    ``current`` is false if the text was edited since. Without timings, the document explains how to
    get them.
    """
    name = PurePath(path).name
    if not timings:
        return f"{name} was not traced since it was opened. Analyze the file to see the times.\n"
    lines = [f"Time spent in the last run of {name}."]
    if not current:
        lines.append("The text was edited after this run.")
    lines += ["", timings_text(timings, path=path), ""]
    phases = {phase.phase for entry in timings for phase in entry.phases}
    lines += [
        f"{phase + ':':<{_WIDTH}}{words}" for phase, words in _PHASES.items() if phase in phases
    ]
    lines.append(f"{_RUNS + ':':<{_WIDTH}}the runs below, which may overlap")
    return "\n".join(lines) + "\n"


def timings_text(timings: Sequence[Timings], paint: Paint = PLAIN, *, path: str) -> str:
    """Format a table for the whole request, then a table for each run (one function with one set of
    inputs), with a row for each phase."""
    targets = list(dict.fromkeys(entry.run.target for entry in timings if entry.run is not None))

    def sort_key(entry: Timings) -> tuple[int, ...]:
        run = entry.run
        return () if run is None else (targets.index(run.target), run.probe, _PARTS.index(run.part))

    ordered = sorted(timings, key=sort_key)
    return "\n".join(line for entry in ordered for line in _run_lines(entry, paint, path))


def _run_lines(entry: Timings, paint: Paint, path: str) -> list[str]:
    rows = [
        paint(Style.STRONG, _run_name(entry)) + paint(Style.DIM, f", {duration(entry.seconds)}")
    ]
    rows += [
        f"  {phase.phase:<{_WIDTH}}{duration(phase.seconds):>10}"
        + paint(Style.DIM, f"  processor {duration(phase.cpu)}" if phase.cpu else "")
        for phase in entry.phases
    ]
    if entry.run is None:
        remainder = max(entry.seconds - sum(phase.seconds for phase in entry.phases), 0.0)
        rows.append(f"  {_RUNS:<{_WIDTH}}{duration(remainder):>10}")
    rows += _frame_lines(entry, path)
    if entry.cache_misses is not None:
        missing = amount(entry.cache_misses, "operator call")
        rows.append(paint(Style.DIM, f"  {missing} not found in the cache of fake tensors"))
    if entry.dynamo:
        longest = entry.dynamo[:_MOST_DYNAMO]
        words = ", ".join(
            f"{cells.printable(name.name)} {duration(name.seconds)}" for name in longest
        )
        rows.append(paint(Style.DIM, f"  Dynamo: {words}"))
    return rows


def _run_name(entry: Timings) -> str:
    if entry.run is None:
        return "Request"
    part = "" if entry.run.part == "first" else f", part {entry.run.part}"
    probe = f", probe {entry.run.probe + 1}" if entry.run.probe else ""
    mode = ", real tensors" if entry.attempt == "real" else ""
    return f"{cells.printable(entry.run.target)}{probe}{part}{mode}"


def _frame_lines(entry: Timings, path: str) -> list[str]:
    """Format the compiled frames with the longest compile times; a frame in another file than
    ``path`` includes its file name."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for frame in entry.frames:
        found.setdefault((frame.function, frame.path, frame.line), []).append(frame.seconds)
    longest = sorted(found.items(), key=lambda item: -sum(item[1]))[:_MOST_FRAMES]
    rows = [
        f"    frame {cells.printable(name)}, {_place_words(file, line, path)}: "
        + duration(sum(times))
        + (f", {amount(len(times), 'compilation')}" if len(times) > 1 else "")
        for (name, file, line), times in longest
    ]
    left = len(found) - len(rows)
    return [*rows, f"    and {amount(left, 'more frame')}"] if left > 0 else rows


def _place_words(frame_path: str, line: int, path: str) -> str:
    file = "" if frame_path == path else f"{cells.printable(PurePath(frame_path).name)} "
    return f"{file}line {line + 1}"


def timings_json(entry: Timings) -> dict[str, Any]:
    """Convert timings to JSON data, in seconds; ``target`` (the traced function) is null for the
    request as a whole."""
    plain = to_plain(entry)
    run = entry.run
    return {
        "target": run.target if run is not None else None,
        "probe": run.probe if run is not None else None,
        "part": run.part if run is not None else None,
        "mode": entry.attempt or None,
        "seconds": entry.seconds,
        "phases": plain.get("phases", []),
        "frames": plain.get("frames", []),
        "dynamo": plain.get("dynamo", []),
        "cache_misses": entry.cache_misses,
    }
