"""Format measured run times as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fullgraph.domain.phrases import amount, duration
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import Measurement

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed


def measured_document(path: str, timed: Sequence[Timed], *, current: bool) -> str:
    """Format the document with the run times of a file's functions; ``current`` is false if the
    text was edited since."""
    name = PurePath(path).name
    if not timed:
        return f"{name} has no measurements yet. Measure a target to see its time.\n"
    lines = [f"Time of one call of each target of {name}: the median of many calls."]
    if not current:
        lines.append("The text has been edited since.")
    lines += ["", measured_text(timed)]
    titles = dict.fromkeys(fix.candidate.title for target in timed for fix in target.fixes)
    if titles:
        lines += ["", "The fixes:", *(f"  {title}" for title in titles)]
    return "\n".join(lines) + "\n"


def measured_text(timed: Sequence[Timed], paint: Paint = PLAIN) -> str:
    """Format a few lines for each measured function: its times in eager mode, compiled, and with
    fixes."""
    return "\n".join(line for target in timed for line in _target_lines(target, paint))


def _target_lines(target: Timed, paint: Paint) -> list[str]:
    device = f", {_device_words(target.plain)}" if target.plain.device else ""
    rows = [
        paint(Style.STRONG, target.target)
        + paint(Style.DIM, f" ({target.inputs}), forward{device}")
    ]
    if target.plain.eager is not None:
        rows.append(f"  {'eager':<16}{duration(target.plain.eager):>10}")
    rows.append(_compiled_line("compiled", target.plain, target.plain))
    if target.fixed is not None:
        fixes = "the fix" if len(target.fixes) == 1 else f"{len(target.fixes)} fixes"
        rows.append(_compiled_line(f"with {fixes}", target.fixed, target.plain))
    return rows


def _device_words(measurement: Measurement) -> str:
    """Describe the device of a measurement as words; runs that use a GPU are not measured."""
    threads = amount(measurement.threads, "thread")
    return f"on the CPU with {threads}; nothing is measured on a GPU"


def _compiled_line(name: str, measurement: Measurement, plain: Measurement) -> str:
    if measurement.compiled is None:
        return f"  {name:<16}not measured: {measurement.reason}"
    times = ""
    if plain.eager:
        times = f"  {plain.eager / measurement.compiled:.2f} times as fast as eager"
    graphs, compiling = amount(measurement.graphs, "graph"), duration(measurement.compiling or 0.0)
    time = f"{duration(measurement.compiled):>10}"
    return f"  {name:<16}{time}{times}, {graphs}, compiled in {compiling}"


def measured_json(target: Timed) -> dict[str, Any]:
    """Convert measurements to JSON data: times in seconds, null for what was not measured."""
    return {
        "target": target.target,
        "inputs": target.inputs,
        "device": target.plain.device,
        "threads": target.plain.threads,
        "eager": target.plain.eager,
        "compiled": _figures_json(target.plain),
        "fixed": _figures_json(target.fixed) if target.fixed is not None else None,
        "fixes": [fix.candidate.title for fix in target.fixes],
    }


def _figures_json(measurement: Measurement) -> dict[str, Any]:
    return {
        "seconds": measurement.compiled,
        "compiling": measurement.compiling,
        "graphs": measurement.graphs,
        "reason": measurement.reason,
    }
