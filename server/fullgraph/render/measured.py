"""Format measured run times as text and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fullgraph.domain.phrases import amount, duration
from fullgraph.render.paint import PLAIN, Paint, Style
from fullgraph_engine.protocol import Compared, Measurement

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed


_TIMES = "\N{MULTIPLICATION SIGN}"
_LARGE_SHARE = 0.6
"""Minimum share of an eager call's time that one operator must take to explain why compiled code is
hardly faster.
"""
_SMALL_SECONDS = 100e-6
"""Seconds of an eager call below which the overhead of calling compiled code is too large."""


def measured_document(path: str, timed: Sequence[Timed], before: str, *, current: bool) -> str:
    """Format the document with the run times of a file's functions, and the diff of the fixes.

    ``before`` is the text that was measured; ``current`` is false if it was edited since.
    """
    name = PurePath(path).name
    if not timed:
        return f"{name} has no measurements yet. Measure a target to see its time.\n"
    names = [target.target for target in timed]
    lines = [
        f"{name if names.count(name) == 1 else _call_words(target)}: {speed_verdict(target)}"
        for name, target in zip(names, timed, strict=True)
    ]
    if not current:
        lines.append("The text was edited after this measurement.")
    lines += ["", "Processor time of one call, the median of many calls:", "", measured_text(timed)]
    titles = dict.fromkeys(fix.candidate.title for target in timed for fix in target.fixes)
    if titles:
        lines += ["", "The fixes:", *(f"  {title}" for title in titles), ""]
        lines += _diff_lines(name, before, timed[0].changed)
    return "\n".join(lines) + "\n"


def _diff_lines(name: str, before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    return difflib.unified_diff(old, new, name, f"{name} with the fixes", lineterm="")


def speed_verdict(target: Timed) -> str:
    """Describe in one line what fixes gain, such as "3 graphs → 1, identical output in 30 tests",
    or why nothing makes the function faster."""
    plain, fixed = target.plain, target.fixed
    if plain.compiled is None:
        return f"not measured: {plain.reason}"
    if fixed is not None and fixed.compiled is None:
        return f"not measured with {fixes_words(target)}: {fixed.reason}"
    if fixed is None or target.gain is None:
        return _as_compiled(plain) + _why_not_faster(plain)
    graphs = f"{plain.graphs} graph{'' if plain.graphs == 1 else 's'} → {fixed.graphs}"
    same = _same_words(target.compared)
    if target.is_improved:
        slower = fixed.eager and fixed.compiled and fixed.compiled > fixed.eager
        but = f"; eager mode is even faster: {duration(fixed.eager or 0.0)}" if slower else ""
        return f"{graphs}, {target.gain:.2f}{_TIMES} faster, {same}{but}"
    if target.compared is not None and target.compared.outcome == "differs":
        return f"{graphs}, but {same}"
    times = f"{duration(plain.compiled)} and {duration(fixed.compiled or 0.0)}"
    return f"{graphs}, but not faster ({times}){_why_not_faster(fixed)}"


def _as_compiled(plain: Measurement) -> str:
    """Describe the graphs and the speed-up of a compiled function for which no fix was found."""
    if plain.graphs > 1:
        words = f"{amount(plain.graphs, 'graph')}, and no fix was found"
    else:
        words = "already one graph"
    if plain.eager and plain.compiled:
        words += f"; compiled is {_against_eager(plain.eager, plain.compiled)}"
    return words


def _against_eager(eager: float, compiled: float) -> str:
    """Compare the times of an eager and a compiled call, in seconds, as words."""
    ratio = eager / compiled
    if ratio < 0.1:
        return f"{1 / ratio:.0f} times as slow as eager"
    return f"{ratio:.2f} times as fast as eager"


def _why_not_faster(measurement: Measurement) -> str:
    """Return a clause that explains why compiled code is hardly faster. Empty if it is at least 1.5
    times as fast, or if the reason is unknown.
    """
    eager, compiled = measurement.eager, measurement.compiled
    if eager is None or compiled is None or eager / compiled >= 1.5:
        return ""
    if eager < _SMALL_SECONDS:
        return f": too small to gain, because one eager call takes only {duration(eager)}"
    if measurement.share >= _LARGE_SHARE:
        return f": `{measurement.costliest}` takes {measurement.share:.0%} of an eager call"
    return ""


def _same_words(compared: Compared | None) -> str:
    """Describe in a clause whether the function behaves the same with the fixes.

    ``compared`` is the comparison; None without one.
    """
    if compared is None or compared.outcome == "unverified":
        reason = f": {compared.reason}" if compared is not None else ""
        return f"output not compared{reason}"
    tests = amount(len(compared.cases), "test")
    if compared.outcome == "differs":
        return f"its behavior differs: {compared.reason}"
    return f"{'identical' if compared.exact else 'equal'} output in {tests}" + (
        "" if compared.exact else ", up to rounding"
    )


def fixes_words(target: Timed) -> str:
    """Describe the fixes of a measured function: "the fix" for a single one, else their number: "2
    fixes".
    """
    return "the fix" if len(target.fixes) == 1 else f"{len(target.fixes)} fixes"


def measured_text(timed: Sequence[Timed], paint: Paint = PLAIN) -> str:
    """Format a few lines for each measured function: its times in eager mode, compiled, and with
    fixes."""
    return "\n".join(line for target in timed for line in _target_lines(target, paint))


def _target_lines(target: Timed, paint: Paint) -> list[str]:
    device = f", {_device_words(target.plain)}" if target.plain.device else ""
    inputs = _call_words(target).removeprefix(target.target)
    rows = [paint(Style.STRONG, target.target) + paint(Style.DIM, f"{inputs}, forward{device}")]
    if target.plain.eager is not None:
        rows.append(f"  {'eager':<16}{duration(target.plain.eager):>10}")
    rows.append(_compiled_line("compiled", target.plain, target.plain))
    if target.fixed is not None:
        rows.append(_compiled_line(f"with {fixes_words(target)}", target.fixed, target.plain))
    return rows


def _call_words(target: Timed) -> str:
    """Return the name and the inputs of a function: ``Net (init(dim=16) f32[4, 16])``. The inputs
    are absent if a program calls the function."""
    init = f"init({target.init})" if target.init else ""
    inputs = " ".join(filter(None, (init, target.inputs)))
    return f"{target.target} ({inputs})" if inputs else target.target


def _device_words(measurement: Measurement) -> str:
    """Describe the device of a measurement as words; runs that use a GPU are not measured."""
    threads = amount(measurement.threads, "thread")
    return f"on the CPU with {threads}; nothing is measured on a GPU"


def _compiled_line(name: str, measurement: Measurement, plain: Measurement) -> str:
    if measurement.compiled is None:
        return f"  {name:<16}not measured: {measurement.reason}"
    times = ""
    if plain.eager:
        times = f"  {_against_eager(plain.eager, measurement.compiled)}"
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
        "verdict": speed_verdict(target),
        "costliest": target.plain.costliest or None,
        "share": round(target.plain.share, 3),
    }


def _figures_json(measurement: Measurement) -> dict[str, Any]:
    return {
        "seconds": measurement.compiled,
        "compiling": measurement.compiling,
        "graphs": measurement.graphs,
        "reason": measurement.reason,
    }
