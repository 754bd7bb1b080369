"""Fixes in words and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fullgraph.domain.phrases import amount
from fullgraph.domain.positions import TextPositions
from fullgraph.render.breaks import cause_words
from fullgraph.render.json import VERSION, dump, range_json
from fullgraph.render.paint import Paint, Style
from fullgraph.render.places import span_in
from fullgraph_engine.protocol import BreakCause, Finding, to_plain

if TYPE_CHECKING:
    from fullgraph.fixes.fixing import Fixed, Offered
    from fullgraph.fixes.verification import Fix


@dataclass(frozen=True)
class FixedFile:
    """What became of one file. ``problem`` says in a sentence why nothing was tried or written."""

    path: str
    before: str
    fixed: Fixed
    written: bool = False
    seconds: float = 0.0
    problem: str = ""


def fixed_text(file: FixedFile, paint: Paint, *, verbose: bool = False) -> str:
    """What was done in a file, a line for each fix and each break that is left.

    ``verbose``: also what was tried in vain.
    """
    return "\n".join(_lines(file, paint, verbose))


def _lines(file: FixedFile, paint: Paint, verbose: bool) -> Iterator[str]:
    for fix in file.fixed.applied:
        where = f"{file.path}:{fix.findings[0].range.start.line + 1}"
        grade = paint(Style.HINT if fix.grade == "safe" else Style.WARNING, fix.grade)
        yield f"{paint(Style.STRONG, where)}: {fix.candidate.title} ({grade}; {verified(fix)})"
        if fix.doubt:
            yield f"  {fix.doubt}"
    for offered in file.fixed.left:
        finding = offered.finding
        where = f"{file.path}:{finding.range.start.line + 1}"
        yield f"{paint(Style.STRONG, where)}: {finding.message} ({finding.code})"
        for fix in offered.search.fixes:
            flag = "with --unsafe" if fix.grade == "unsafe" else "by hand"
            yield f"  {fix.grade}, {flag}: {fix.candidate.title} ({verified(fix)})"
            if fix.doubt:
                yield f"    {fix.doubt}"
        if not offered.search.fixes:
            yield "  No rewrite was found that ends it and does the same."
            reasons = {refused.why for refused in offered.search.refused}
            if finding.calls and len(reasons) == 1:
                yield from (f"  {reason}" for reason in reasons)
        cause = upstream(offered)
        if cause is not None:
            where = cause_words(cause, finding.range.start.line)
            yield f"  It comes from {where}, which is not edited."
            command = issue_command(file, finding)
            if command:
                yield f"  The text of an issue for it: {command}"
        if verbose:
            for refused in offered.search.refused:
                yield f"  refused: {refused.candidate.title}: {refused.why}"


def upstream(offered: Offered) -> BreakCause | None:
    """The code of a library that a break comes from, where no rewrite of the file ends it."""
    causes = offered.finding.causes
    verified_ones = (fix for fix in offered.search.fixes if fix.grade != "suggestion")
    if any(cause.own for cause in causes) or any(verified_ones):
        return None
    return next(iter(causes), None)


def issue_command(file: FixedFile, finding: Finding) -> str:
    """The command that prints the text of an issue with a minified repro; empty while the finding
    is in a text that is not in the file."""
    if file.fixed.text != file.before and not file.written:
        return ""
    place = f"{file.path}:{finding.range.start.line + 1}"
    return shlex.join(["fullgraph", "repro", place, "--issue"])


def verified(fix: Fix) -> str:
    """What was verified, in one clause."""
    number = sum(len(one.cases) for one in fix.compared)
    first, *more = fix.findings
    parts = [
        "the break is gone" if first.code.startswith("graph-break/") else "the finding is gone"
    ]
    if more:
        parts[0] = f"{amount(len(more) + 1, 'finding')} gone"
    if any(one.outcome == "same" for one in fix.compared):
        exact = all(one.exact for one in fix.compared)
        same = "bitwise the same" if exact else "the same up to rounding"
        parts.append(f"{same} in {amount(number, 'case')}")
    if fix.judgment.revealed:
        parts.append(f"{amount(len(fix.judgment.revealed), 'break')} behind it shown now")
    return ", ".join(parts)


def fixed_json(files: tuple[FixedFile, ...], torch: str, problems: tuple[str, ...]) -> str:
    """All files as JSON text; each fix with its edits, its grade and what was verified."""
    document: dict[str, Any] = {
        "version": VERSION,
        "torch": torch or None,
        "files": [_file(file) for file in files],
    }
    if problems:
        document["errors"] = list(problems)
    return dump(document)


def _file(file: FixedFile) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": file.path,
        "seconds": round(file.seconds, 3),
        "written": file.written,
        "applied": [],
        "left": [],
    }
    text = file.before
    for fix in file.fixed.applied:
        plain["applied"].append(fix_json(fix, text))
        text = fix.candidate.text
    plain["left"] = [_offered(offered, text, file) for offered in file.fixed.left]
    if file.problem or file.fixed.problem:
        plain["error"] = file.problem or file.fixed.problem
    return plain


def _offered(offered: Offered, text: str, file: FixedFile) -> dict[str, Any]:
    finding = offered.finding
    cause = upstream(offered)
    return {
        "code": finding.code,
        "message": finding.message,
        "range": range_json(span_in(TextPositions(text), finding.range)),
        "refused": [
            {"title": one.candidate.title, "rewrite": one.candidate.rewrite, "why": one.why}
            for one in offered.search.refused
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
    """A fix; ranges are of ``text``, which it changes, in lines and UTF-16 characters from zero."""
    positions = TextPositions(text)
    return {
        "title": fix.candidate.title,
        "rewrite": fix.candidate.rewrite,
        "grade": fix.grade,
        "doubt": fix.doubt,
        "ends": [
            {
                "code": one.code,
                "message": one.message,
                "range": range_json(span_in(positions, one.range)),
            }
            for one in fix.findings
        ],
        "reveals": [one.message for one in fix.judgment.revealed],
        "edits": [
            {"range": range_json(span_in(positions, edit.range)), "text": edit.text}
            for edit in fix.edits
        ],
        "verified": [
            {
                "outcome": one.outcome,
                "exact": one.exact,
                "reason": one.reason,
                "cases": [to_plain(case) for case in one.cases],
            }
            for one in fix.compared
        ],
    }
