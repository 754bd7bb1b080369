"""Format a difference for a terminal: a summary, both sides, then a line for each difference."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.cli.diff.difference import (
    SIDES,
    Difference,
    FileDifference,
    FindingDifference,
    TargetDifference,
)
from fullgraph.cli.diff.words import (
    change_words,
    extent_words,
    first_line,
    headline,
    remarks,
    run_words,
    side_words,
    target_name,
    unknown_words,
)
from fullgraph.render import cells
from fullgraph.render.paint import OF_SEVERITY, PLAIN, Paint, Style


def difference_text(difference: Difference, paint: Paint = PLAIN) -> str:
    """Format a difference as lines for a terminal, without a newline at the end."""
    blocks = ["\n".join(_head(difference, paint))]
    blocks += ["\n".join(_file(file, paint)) for file in difference.files]
    return "\n\n".join(blocks)


def _head(difference: Difference, paint: Paint) -> Iterator[str]:
    (first, severity), *others = headline(difference)
    style = OF_SEVERITY.get(severity, Style.HINT) if severity else Style.STRONG
    parts = [paint(style, first)]
    for words, severity in others:
        parts.append(paint(OF_SEVERITY[severity], words) if severity else words)
    yield ", ".join(parts) + paint(Style.DIM, f"{extent_words(difference)}.")
    for side in SIDES:
        words = side_words(difference.of(side))
        yield paint(Style.DIM, f"{side}: {cells.printable(words)}")
    for remark in remarks(difference):
        yield paint(Style.DIM, f"note: {remark}")


def _file(file: FileDifference, paint: Paint) -> Iterator[str]:
    missing = f" (not in {file.missing})" if file.missing else ""
    yield paint(Style.STRONG, cells.printable(file.path)) + paint(Style.DIM, missing)
    for problem in file.problems:
        words = f"could not be checked in {problem.side}: {problem.reason}"
        yield f"  {paint(Style.ERROR, cells.printable(words))}"
    for target in file.targets:
        yield from _target(target, paint)


def _target(target: TargetDifference, paint: Paint) -> Iterator[str]:
    for run in target.runs:
        style = Style.ERROR if run.lost else Style.STRONG
        name = paint(style, cells.printable(target_name(target, run)))
        yield f"  {name}: {cells.printable(run_words(run, target))}"
    if target.name and not target.runs:
        yield f"  {paint(Style.STRONG, cells.printable(target.name))}"
    indent = "    " if target.name else "  "
    for one in target.findings:
        if one.kind != "unknown":
            yield indent + _finding(one, paint)
    for words in unknown_words(target):
        yield f"{indent}unknown  {cells.printable(words)}"


def _finding(one: FindingDifference, paint: Paint) -> str:
    finding = one.shown
    style = OF_SEVERITY.get(finding.severity, Style.HINT) if one.kind == "new" else Style.DIM
    code = paint(style, f"{finding.severity.value}[{finding.code}]")
    place = f"{finding.line + 1}:{finding.character + 1}"
    more = change_words(one)
    message = cells.printable(first_line(finding.message) + (f" ({more})" if more else ""))
    return f"{paint(Style.STRONG, f'{one.kind:<7}')}  {place:<6} {code} {message}"
