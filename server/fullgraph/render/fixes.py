"""Format the results of ``fullgraph fix`` as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fullgraph.domain.phrases import amount, brief_listing
from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.fixable import fixable
from fullgraph.render.breaks import cause_words
from fullgraph.render.json import VERSION, dump_json, range_json
from fullgraph.render.paint import Paint, Style
from fullgraph.render.places import text_span
from fullgraph_engine.protocol import BreakCause, Finding, to_plain

if TYPE_CHECKING:
    from fullgraph.fixes.fixing import Fixed, Offered
    from fullgraph.fixes.step_times import StepTimes
    from fullgraph.fixes.verification import Fix


@dataclass(frozen=True)
class FixedFile:
    """Result of fixing one file: its text before and its fixes.

    ``written`` is true if the file on disk was changed. ``problem`` explains in a sentence why the
    file was not fixed or written; else it is empty. ``times`` are the seconds of each step, None if
    the file was not traced.
    """

    path: str
    before: str
    fixed: Fixed
    written: bool = False
    seconds: float = 0.0
    problem: str = ""
    times: StepTimes | None = None


_MOST_UNTRACED = 6
"""Maximum number of names of untraced functions and classes that a text lists."""


def fixed_text(file: FixedFile, paint: Paint, *, verbose: bool = False) -> str:
    """Format the result of fixing a file, with a line for each applied fix and each graph break
    that remains.

    ``verbose`` adds the rewrites that were tried, and why each was refused.
    """
    return "\n".join(_result_lines(file, paint, verbose))


def _result_lines(file: FixedFile, paint: Paint, verbose: bool) -> Iterator[str]:
    for fix in file.fixed.applied:
        where = f"{file.path}:{fix.findings[0].range.start.line + 1}"
        grade = paint(Style.HINT if fix.grade == "safe" else Style.WARNING, fix.grade)
        words = f"{fix.candidate.title} ({grade}; {verification_words(fix)})"
        yield f"{paint(Style.STRONG, where)}: {words}"
        if fix.doubt:
            yield f"  {fix.doubt}"
    for offered in file.fixed.left:
        finding = offered.finding
        where = f"{file.path}:{finding.range.start.line + 1}"
        yield f"{paint(Style.STRONG, where)}: {finding.message} ({finding.code})"
        for fix in offered.search.fixes:
            flag = "with --unsafe" if fix.grade == "unsafe" else "by hand"
            yield f"  {fix.grade}, {flag}: {fix.candidate.title} ({verification_words(fix)})"
            if fix.doubt:
                yield f"    {fix.doubt}"
        if not fixable(finding):
            yield "  There may be more findings, because this code was not traced to its end."
        elif not offered.search.fixes:
            problem = "" if offered.search.refused else offered.search.problem
            unfound = "No rewrite was found that removes this finding and keeps the behavior."
            yield f"  {problem or unfound}"
            reasons = {refused.why for refused in offered.search.refused}
            if finding.calls and len(reasons) == 1:
                yield from (f"  {reason}" for reason in reasons)
        cause = upstream_cause(offered)
        if cause is not None:
            where = cause_words(cause, finding.range.start.line)
            yield f"  The graph break comes from {where}, which fullgraph does not edit."
            command = issue_command(file, finding)
            if command:
                yield f"  Text for a bug report: {command}"
        if verbose:
            for refused in offered.search.refused:
                yield f"  refused: {refused.candidate.title}: {refused.why}"
    if untraced := file.fixed.untraced:
        names = brief_listing(untraced, _MOST_UNTRACED)
        verb = "was" if len(untraced) == 1 else "were"
        yield f"{paint(Style.STRONG, file.path)}: {names} {verb} not traced; see `fullgraph check`."


def upstream_cause(offered: Offered) -> BreakCause | None:
    """Return the library code that causes a graph break, if no rewrite of the file can fix it; else
    None."""
    causes = offered.finding.causes
    verified_ones = (fix for fix in offered.search.fixes if fix.grade != "suggestion")
    if any(cause.own for cause in causes) or any(verified_ones):
        return None
    return next(iter(causes), None)


def issue_command(file: FixedFile, finding: Finding) -> str:
    """Return the shell command that prints the Markdown of an issue with a minified script that
    reproduces the finding.

    The command is empty if the finding only exists in a fixed text that was not written to the
    file.
    """
    if file.fixed.text != file.before and not file.written:
        return ""
    place = f"{file.path}:{finding.range.start.line + 1}"
    return shlex.join(["fullgraph", "repro", place, "--issue"])


def verification_words(fix: Fix) -> str:
    """Describe in one clause what the verification of a fix showed, such as equal results and fewer
    graph breaks."""
    number = sum(len(comparison.cases) for comparison in fix.compared)
    first, *more = fix.findings
    removed = "the break" if first.code.startswith("graph-break/") else "the finding"
    if more:
        removed = amount(len(more) + 1, "finding")
    parts = [f"removes {removed}"]
    if any(comparison.outcome == "same" for comparison in fix.compared):
        exact = all(comparison.exact for comparison in fix.compared)
        same = "identical output" if exact else "same output up to rounding"
        where = amount(number, "test") if number else "the run of the program"
        parts.append(f"{same} in {where}")
    if fix.compile_times is not None:
        times = fix.compile_times
        parts.append(
            f"compiles in {times.after:.1f} s, not {times.before:.1f} s ({times.speedup:.1f}x)"
        )
    if fix.judgment.revealed:
        parts.append(f"uncovers {amount(len(fix.judgment.revealed), 'further break')}")
    return "; ".join(parts)


def fixed_json(files: tuple[FixedFile, ...], torch: str, problems: tuple[str, ...]) -> str:
    """Format the results of all files as JSON; each fix has its edits, its safety grade and its
    verification.

    ``torch`` is the version of torch; ``problems`` are sentences about the whole command.
    """
    document: dict[str, Any] = {
        "version": VERSION,
        "torch": torch or None,
        "files": [_file_json(file) for file in files],
    }
    if problems:
        document["errors"] = list(problems)
    return dump_json(document)


def _file_json(file: FixedFile) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": file.path,
        "seconds": round(file.seconds, 3),
        "written": file.written,
        "steps": {
            step: round(seconds, 3)
            for step, seconds in (file.times.seconds if file.times is not None else {}).items()
        },
        "applied": [],
        "left": [],
        "untraced": list(file.fixed.untraced),
    }
    text = file.before
    for fix in file.fixed.applied:
        plain["applied"].append(fix_json(fix, text))
        text = fix.candidate.text
    plain["left"] = [_offered_json(offered, text, file) for offered in file.fixed.left]
    if file.problem or file.fixed.problem:
        plain["error"] = file.problem or file.fixed.problem
    return plain


def _offered_json(offered: Offered, text: str, file: FixedFile) -> dict[str, Any]:
    finding = offered.finding
    cause = upstream_cause(offered)
    return {
        "code": finding.code,
        "message": finding.message,
        "range": range_json(text_span(TextPositions(text), finding.range)),
        "refused": [
            {
                "title": refused.candidate.title,
                "rewrite": refused.candidate.rewrite,
                "why": refused.why,
            }
            for refused in offered.search.refused
        ],
        "fixes": [fix_json(fix, text) for fix in offered.search.fixes],
        "upstream": cause
        and {
            "path": cause.path,
            "line": cause.line,
            "function": cause.function,
            "issue": issue_command(file, finding) or None,
        },
    }


def fix_json(fix: Fix, text: str) -> dict[str, Any]:
    """Convert a fix to JSON data.

    ``text`` is the text that the fix edits; its ranges become zero-based lines and UTF-16
    characters.
    """
    positions = TextPositions(text)
    return {
        "title": fix.candidate.title,
        "rewrite": fix.candidate.rewrite,
        "grade": fix.grade,
        "doubt": fix.doubt,
        "ends": [
            {
                "code": entry.code,
                "message": entry.message,
                "range": range_json(text_span(positions, entry.range)),
            }
            for entry in fix.findings
        ],
        "compile_seconds": fix.compile_times
        and {
            "before": round(fix.compile_times.before, 3),
            "after": round(fix.compile_times.after, 3),
        },
        "reveals": [entry.message for entry in fix.judgment.revealed],
        "edits": [
            {"range": range_json(text_span(positions, edit.range)), "text": edit.text}
            for edit in fix.edits
        ],
        "verified": [
            {
                "outcome": entry.outcome,
                "exact": entry.exact,
                "reason": entry.reason,
                "cases": [to_plain(case) for case in entry.cases],
            }
            for entry in fix.compared
        ],
    }
