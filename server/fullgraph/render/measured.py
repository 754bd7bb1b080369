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
    """Format the document about a file; ``current`` is false if the text was edited since."""
    name = PurePath(path).name
    if not timed:
        return f"{name} was not measured since it was opened. Measure a target; this follows.\n"
    lines = [f"How long targets of {name} take: one call, the median of many."]
    if not current:
        lines.append("The text was edited since.")
    lines += ["", measured_text(timed)]
    titles = dict.fromkeys(fix.candidate.title for one in timed for fix in one.fixes)
    if titles:
        lines += ["", "The fixes:", *(f"  {title}" for title in titles)]
    return "\n".join(lines) + "\n"


def measured_text(timed: Sequence[Timed], paint: Paint = PLAIN) -> str:
    """Format a few lines for each measured target."""
    return "\n".join(line for one in timed for line in _lines(one, paint))


def _lines(one: Timed, paint: Paint) -> list[str]:
    on = f", {_where(one.plain)}" if one.plain.device else ""
    rows = [paint(Style.STRONG, one.target) + paint(Style.DIM, f" ({one.inputs}), forward{on}")]
    if one.plain.eager is not None:
        rows.append(f"  {'eager':<16}{duration(one.plain.eager):>10}")
    rows.append(_compiled("compiled", one.plain, one.plain))
    if one.fixed is not None:
        fixes = "the fix" if len(one.fixes) == 1 else f"{len(one.fixes)} fixes"
        rows.append(_compiled(f"with {fixes}", one.fixed, one.plain))
    return rows


def _where(measurement: Measurement) -> str:
    """Describe the device of a measurement; GPUs are not measured."""
    threads = amount(measurement.threads, "thread")
    return f"on the CPU with {threads}; nothing is measured on a GPU"


def _compiled(name: str, one: Measurement, plain: Measurement) -> str:
    if one.compiled is None:
        return f"  {name:<16}not measured: {one.reason}"
    times = ""
    if plain.eager:
        times = f"  {plain.eager / one.compiled:.2f} times as fast as eager"
    graphs, compiling = amount(one.graphs, "graph"), duration(one.compiling or 0.0)
    return f"  {name:<16}{duration(one.compiled):>10}{times}, {graphs}, compiled in {compiling}"


def measured_json(one: Timed) -> dict[str, Any]:
    """Convert measurements to JSON data: times in seconds, null for what was not measured."""
    return {
        "target": one.target,
        "inputs": one.inputs,
        "device": one.plain.device,
        "threads": one.plain.threads,
        "eager": one.plain.eager,
        "compiled": _figures(one.plain),
        "fixed": _figures(one.fixed) if one.fixed is not None else None,
        "fixes": [fix.candidate.title for fix in one.fixes],
    }


def _figures(one: Measurement) -> dict[str, Any]:
    return {
        "seconds": one.compiled,
        "compiling": one.compiling,
        "graphs": one.graphs,
        "reason": one.reason,
    }
