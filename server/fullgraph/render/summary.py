"""Summarize the trace of a function in one line, for a terminal and for a code lens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fullgraph.domain.phrases import SEPARATOR, amount, line_blocks, seconds
from fullgraph_engine.protocol import Compilation, CompilerCheck, ProbeInfo, TargetReport

MOST_CLAUSE = 48
"""Maximum number of characters of an error message in the title of a code lens."""
MOST_INPUTS = 64
"""Maximum number of characters of the inputs in the title of a code lens."""


@dataclass(frozen=True)
class ShownBreaks:
    """Numbers of lines on which an editor shows graph breaks of one run (a trace with one set of
    inputs).

    ``lines`` are lines that break the graph in the run itself, ``other_lines`` lines that do so
    only on alternative execution paths.
    """

    lines: int = 0
    other_lines: int = 0


def target_line(report: TargetReport) -> str:
    """Summarize the trace of a function: ``3 graphs · 13 ops · 2 breaks · 41 guards · f32[4, 16]
    from get_inputs · fake · 0.52 s``."""
    if report.status == "no-probe":
        return _untraced_words(report)
    if report.within:
        return SEPARATOR.join(filter(None, (_within_words(report), lines_words(report))))
    facts = list(_outcome_words(report))
    if report.status == "traced" and report.is_inside_region:
        facts += _break_words(report)
    elif report.status == "traced":
        facts += [
            amount(report.graphs, "graph"),
            amount(report.ops, "op"),
            *_break_words(report),
            amount(report.guards, "guard"),
        ]
    facts += _origin_words(report)
    if report.lines:
        facts.append(lines_words(report))
    if report.chosen:
        facts.append(f"{amount(report.chosen, 'value')} chosen")
    if report.compilation is not None:
        facts.append(compilation_words(report.compilation))
    facts += [report.mode, seconds(report.seconds)]
    return SEPARATOR.join(facts)


_COMPILERS: dict[CompilerCheck, str] = {"aot": "AOTAutograd", "inductor": "Inductor"}


def compilation_words(compilation: Compilation) -> str:
    """Describe the outcome of compiling a function after its trace: ``compiled by Inductor in 1.2
    s``."""
    name = _COMPILERS.get(compilation.compiler, compilation.compiler)
    if compilation.status == "not-computed":
        return f"not compiled by {name}"
    if compilation.status == "failed":
        return f"{name} fails"
    return f"compiled by {name} in {seconds(compilation.seconds)}"


def compilation_details(compilation: Compilation) -> str:
    """Return the seconds of each stage and, if the function was not compiled to the end, the
    reason."""
    if compilation.reason:
        return f"{compilation_words(compilation)}: {compilation.reason}"
    stages = {
        "Dynamo": sum(one.dynamo for one in compilation.regions),
        "AOTAutograd": sum(one.aot for one in compilation.regions),
        "Inductor": sum(one.inductor for one in compilation.regions),
    }
    times = [f"{name} {seconds(value)}" for name, value in stages.items() if value]
    slowest = compilation.slowest_line
    if slowest is not None:
        times.append(f"slowest: line {slowest.line + 1}, {seconds(slowest.seconds)}")
    words = compilation_words(compilation)
    return f"{words} ({', '.join(times)})" if times else words


def _untraced_words(report: TargetReport) -> str:
    if report.compiled is False:
        return f"not traced, {report.error or 'the program does not compile it'}"
    return "not traced: fullgraph doesn't know this function's inputs"


def _within_words(report: TargetReport) -> str:
    return f"traced as part of {report.within}"


def lens_title(
    report: TargetReport, *, with_probe: bool = True, shown: ShownBreaks | None = None
) -> str:
    """Summarize the trace of a function for a code lens: ``3 graphs · 2 breaks · f32[4, 16] from
    get_inputs``.

    Guards have a lens of their own. Errors are cut; ``lens_tooltip`` has the full text.
    ``with_probe`` is false if the comment with the inputs is right below the lens. ``shown`` is
    None if it is unknown where the editor shows the breaks.
    """
    if report.status == "no-probe":
        return _untraced_words(report)
    if report.status == "skipped":
        return "not traced: time limit of the file · trace it now"
    if report.within:
        return _within_words(report)
    facts = [cut_message(words) for words in _outcome_words(report)]
    if report.status == "traced":
        graphs = [] if report.is_inside_region else [amount(report.graphs, "graph")]
        facts += [*graphs, *_break_words(report, shown)]
    if report.probe is not None and report.probe.origin == "program":
        facts += _origin_words(report)
    elif with_probe and report.probe is not None and not _is_without_inputs(report, report.probe):
        words = _with_source(report.probe, _brief_inputs(report.probe))
        facts.append(f"{words} (shortened)" if report.probe.shortened else words)
    return SEPARATOR.join(facts)


def cut_message(words: str, most: int = MOST_CLAUSE) -> str:
    """Cut a message to at most ``most`` characters, at a space."""
    if len(words) <= most:
        return words
    return words[:most].rpartition(" ")[0].rstrip(",;:") + " …"


def _brief_inputs(probe: ProbeInfo) -> str:
    """Return the inputs of a trace, short enough for a title; if they are too long, the
    constructor's arguments are left out first."""
    inputs = probe_inputs(probe)
    if len(inputs) > MOST_INPUTS and probe.init:
        inputs = probe_inputs(replace(probe, init="…"))
    return cut_message(inputs, MOST_INPUTS)


def lines_words(report: TargetReport) -> str:
    """Describe how many lines of the function were executed: ``lines traced 41 of 52``; empty if
    unknown."""
    if not report.lines or report.lines_traced is None:
        return ""
    return f"lines traced {report.lines_traced:,} of {report.lines:,}"


def reach_words(report: TargetReport) -> str:
    """Describe the lines of a function that no trace reached: ``7 of 52 lines were not reached:
    lines 12-15 and 40``; empty if unknown."""
    missed = report.untraced
    if not report.lines:
        return ""
    if not missed:
        return f"all {amount(report.lines, 'line')} traced"
    were = "was" if len(missed) == 1 else "were"
    ratio = f"{len(missed):,} of {amount(report.lines, 'line')}"
    return f"{ratio} {were} not reached: {line_blocks(missed)}"


def lens_tooltip(report: TargetReport, *, shown: ShownBreaks | None = None) -> str:
    """Return the details that ``lens_title`` leaves out, for the tooltip of a code lens.

    These are the full errors and inputs, lines that were not reached, and alternative executions.
    ``shown`` is None if it is unknown where the editor shows the breaks.
    """
    found = [words for words in _outcome_words(report) if cut_message(words) != words]
    if (probe := report.probe) is not None and _brief_inputs(probe) != probe_inputs(probe):
        found.append(probe_inputs(probe))
    if probe is not None and probe.unusual:
        found.append(f"The guessed inputs are unusual: {probe.unusual}.")
    if probe is not None and probe.shortened:
        found.append(f"To save time, repeated code was traced fewer times: {probe.shortened}.")
    if report.breaks and shown is not None and not shown.lines and not report.is_inside_region:
        found.append("The breaks are in another file, or a comment or a setting hides them.")
    found += [words] if (words := reach_words(report)) else []
    if report.compilation is not None:
        found.append(compilation_details(report.compilation))
    return "\n".join([*found, *paths_words(report)])


def paths_words(report: TargetReport) -> list[str]:
    """Describe the alternative executions of a function: ``also in eval mode``, and the
    alternatives that could not be traced, with the reason."""
    traced = [path.words for path in report.paths if path.status == "traced"]
    left = [f"not {path.words}: {path.reason}" for path in report.paths if path.status != "traced"]
    return [f"also {'; '.join(traced)}", *left] if traced else left


def probe_words(probe: ProbeInfo) -> str:
    """Describe the inputs that a function was traced with and where they come from: ``f32[4, 16]
    from get_inputs``. Constructor arguments come first."""
    words = _with_source(probe, probe_inputs(probe))
    facts = [fact for fact in (probe.unusual, probe.shortened) if fact]
    return f"{words} ({'; '.join(facts)})" if facts else words


def _with_source(probe: ProbeInfo, inputs: str) -> str:
    if probe.origin == "harvest":
        # For inputs found in the file, the source is a phrase that does not name a place.
        words = f"{inputs} {probe.source}"
    elif probe.origin == "synthesis":
        words = f"{_guess_words(probe)}: {inputs}" if probe.inputs else "guessed inputs"
    else:
        words = f"{inputs} from {probe.source or probe.origin}"
    return f"{words}, {probe.context}" if probe.context else words


def _is_without_inputs(report: TargetReport, probe: ProbeInfo) -> bool:
    """Whether the code raised an exception before fullgraph had guessed its inputs."""
    return probe.origin == "synthesis" and report.status == "failed" and not probe.inputs


def _guess_words(probe: ProbeInfo) -> str:
    return "unusual guessed inputs" if probe.unusual else "guessed inputs"


def probe_inputs(probe: ProbeInfo) -> str:
    """Return the inputs of a trace in the notation of probe comments: ``init(dim=16) f32[4,
    16]``."""
    inputs = probe.inputs or "no inputs"
    return f"init({probe.init}) {inputs}" if probe.init else inputs


def _outcome_words(report: TargetReport) -> Iterable[str]:
    # The error may have many lines; the first line is its message.
    error = (report.error or "").strip().split("\n", 1)[0]
    if report.status == "failed":
        yield f"failed: {error}" if error else "failed"
    elif report.status == "timeout":
        yield error or "stopped at the time limit"
    elif report.status == "crashed":
        yield f"crashed: {error}" if error else "crashed"
    elif report.status == "cancelled":
        yield "cancelled"
    elif report.status == "skipped":
        yield "not traced: the time limit of the file is reached"


def _break_words(report: TargetReport, shown: ShownBreaks | None = None) -> Iterable[str]:
    # Without graphs, the absence of graph breaks means nothing.
    captured = report.graphs != 0 or report.region is None
    if report.breaks != 0 or captured:
        yield f"{amount(report.breaks, 'break')}{_break_place(report, shown)}"
    if report.skips is None:
        yield amount(None, "skipped frame")
    elif report.skips:
        yield f"{amount(report.skips, 'frame')} skipped"
    if report.recompiles != 0:
        yield amount(report.recompiles, "recompile")


def _break_place(report: TargetReport, shown: ShownBreaks | None) -> str:
    """Return words to append to the number of breaks, about where the editor shows them: ``on 2
    lines``.

    Empty if the number of lines equals the number of breaks, or if ``shown`` (the line numbers) is
    None.
    """
    # Findings inside a compiled function are reported at that function, so the count of lines would
    # be too low.
    if shown is None or report.is_inside_region:
        return ""
    words = ""
    if report.breaks and shown.lines != report.breaks:
        words = f" on {amount(shown.lines, 'line')}" if shown.lines else " (not shown)"
    if shown.other_lines:
        words += f", {shown.other_lines:,} more on other paths"
    return words


def _origin_words(report: TargetReport) -> list[str]:
    """Describe where the inputs of a function come from; for a program, the number of calls and the
    compile options."""
    if report.probe is None or _is_without_inputs(report, report.probe):
        return []
    if report.probe.origin != "program":
        return [probe_words(report.probe)]
    region = report.region
    if region is None:
        return [report.probe.source]
    options = [region.option_words] if region.options else []
    if report.probe.source:
        options.append(report.probe.source)
    if region.inlined:
        return ["traced inside another compiled region", *options]
    return [f"in {amount(region.calls, 'call')}", *options]
