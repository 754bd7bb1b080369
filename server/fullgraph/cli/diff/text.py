"""Format the differences of two checks for a terminal: a summary, the two sides, then a line for
each difference."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.cli.diff.difference import (
    SIDES,
    CheckDifference,
    FileDifference,
    FindingDifference,
    TargetDifference,
)
from fullgraph.cli.diff.words import (
    change_words,
    count_remarks,
    extent_words,
    first_line,
    headline,
    run_words,
    side_words,
    target_name,
    unknown_words,
)
from fullgraph.render import cells
from fullgraph.render.paint import PLAIN, SEVERITY_STYLES, Paint, Style


def difference_text(difference: CheckDifference, paint: Paint = PLAIN) -> str:
    """Format the differences of two checks for a terminal, without a newline at the end.

    ``paint`` adds colors.
    """
    blocks = ["\n".join(_head_lines(difference, paint))]
    blocks += ["\n".join(_file_lines(file, paint)) for file in difference.files]
    return "\n\n".join(blocks)


def _head_lines(difference: CheckDifference, paint: Paint) -> Iterator[str]:
    (first, severity), *others = headline(difference)
    style = SEVERITY_STYLES.get(severity, Style.HINT) if severity else Style.STRONG
    parts = [paint(style, first)]
    for words, severity in others:
        parts.append(paint(SEVERITY_STYLES[severity], words) if severity else words)
    yield ", ".join(parts) + paint(Style.DIM, f"{extent_words(difference)}.")
    for side in SIDES:
        words = side_words(difference.side_check(side))
        yield paint(Style.DIM, f"{side}: {cells.printable(words)}")
    for remark in count_remarks(difference):
        yield paint(Style.DIM, f"note: {remark}")


def _file_lines(file: FileDifference, paint: Paint) -> Iterator[str]:
    missing = f" (not in {file.missing})" if file.missing else ""
    yield paint(Style.STRONG, cells.printable(file.path)) + paint(Style.DIM, missing)
    for problem in file.problems:
        words = f"could not be checked in {problem.side}: {problem.reason}"
        yield f"  {paint(Style.ERROR, cells.printable(words))}"
    for target in file.targets:
        yield from _target_lines(target, paint)


def _target_lines(target: TargetDifference, paint: Paint) -> Iterator[str]:
    for run in target.runs:
        style = Style.ERROR if run.lost else Style.STRONG
        name = paint(style, cells.printable(target_name(target, run)))
        yield f"  {name}: {cells.printable(run_words(run, target))}"
    if target.name and not target.runs:
        yield f"  {paint(Style.STRONG, cells.printable(target.name))}"
    indent = "    " if target.name else "  "
    for finding in target.findings:
        if finding.kind != "unknown":
            yield indent + _finding_line(finding, paint)
    for words in unknown_words(target):
        yield f"{indent}unknown  {cells.printable(words)}"


def _finding_line(change: FindingDifference, paint: Paint) -> str:
    finding = change.shown
    style = SEVERITY_STYLES.get(finding.severity, Style.HINT) if change.kind == "new" else Style.DIM
    code = paint(style, f"{finding.severity.value}[{finding.code}]")
    place = f"{finding.line + 1}:{finding.character + 1}"
    more = change_words(change)
    message = cells.printable(first_line(finding.message) + (f" ({more})" if more else ""))
    return f"{paint(Style.STRONG, f'{change.kind:<7}')}  {place:<6} {code} {message}"
