"""The tool ``fix``: search for verified edits that remove findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fullgraph import fixes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import amount
from fullgraph.domain.positions import text_hash
from fullgraph.fixes.fixable import fixable
from fullgraph.mcp.analysis import Analyzer, Checked
from fullgraph.mcp.answers import FixAnswer, Refused, UnfixedFinding, VerifiedFix
from fullgraph.mcp.engines import LentEngine
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject
from fullgraph.render.diffs import file_diff
from fullgraph.render.fixes import verification_words
from fullgraph_engine.protocol import Finding

if TYPE_CHECKING:
    from fullgraph.fixes.verification import Fix


@dataclass(frozen=True)
class FixWish:
    """The fixes that a caller wants: for one finding by its id, or for all; the grades to apply.

    ``target`` restricts the traces to one function or class; empty for all. ``backend`` also
    verifies fixes with C++ code of Inductor, which takes longer.
    """

    finding: str = ""
    target: str = ""
    unsafe: bool = False
    backend: bool = False

    @property
    def grades(self) -> tuple[str, ...]:
        return ("safe", "unsafe") if self.unsafe else ("safe",)


async def find_fixes(
    analyzer: Analyzer, subject: Subject, wish: FixWish, show_progress: ShowProgress
) -> FixAnswer:
    """Search for fixes and return all of them, without limiting the size of the answer.

    Raises:
        Refused: The text could not be traced, or does not have the finding.
    """
    checked = await analyzer.check(subject, show_progress, target=wish.target)
    item = checked.find(wish.finding) if wish.finding else None
    if item is not None and not fixable(item.finding):
        raise Refused(
            f"fullgraph has no rewrites for `{item.finding.code}`; change the code yourself and "
            "check it with `verify`."
        )
    await fixes.load()
    async with analyzer.engine(subject.own, show_progress) as (engine, _):
        if item is not None:
            search = _fix_one(checked, engine, item, wish)
        else:
            search = _fix_all(checked, engine, wish, show_progress)
        answer = await analyzer.run_cancellable(search)
    return dataclasses.replace(answer, notes=checked.notes)


def page_fixes(answer: FixAnswer, paging: Paging) -> FixAnswer:
    """Return the part of an answer that fits into the budget.

    Raises:
        Refused: The cursor belongs to another text, or is invalid.
    """
    items: list[str | VerifiedFix | UnfixedFinding] = [answer.diff] if answer.diff else []
    items += [*answer.applied, *answer.alternatives, *answer.unfixed]
    page = paging.page_items(items)
    alternatives = set(map(id, answer.alternatives))
    found = [one for one in page.items if isinstance(one, VerifiedFix)]
    return dataclasses.replace(
        answer,
        diff=answer.diff if answer.diff in page.items else "",
        applied=tuple(one for one in found if id(one) not in alternatives),
        alternatives=tuple(one for one in found if id(one) in alternatives),
        unfixed=tuple(one for one in page.items if isinstance(one, UnfixedFinding)),
        cursor=page.cursor,
    )


async def _fix_one(
    checked: Checked, engine: LentEngine, item: FileFinding, wish: FixWish
) -> FixAnswer:
    from fullgraph.fixes.verification import Verifier

    subject = checked.subject
    verifier = Verifier(engine, checked.request, backend=wish.backend)
    search = await verifier.fixes(item.run_findings[0], item.targets)
    chosen = next((fix for fix in search.fixes if fix.grade in wish.grades), None)
    others = [fix for fix in search.fixes if fix is not chosen]
    after = chosen.candidate.text if chosen is not None else subject.text
    found = "1 edit" if chosen is not None else "no edit"
    return FixAnswer(
        subject.path,
        subject.hash,
        f"Found {found} to apply and {amount(len(others), 'alternative')} for this finding.",
        fixed_hash=text_hash(after) if chosen is not None else "",
        diff=file_diff(subject.short_path, subject.text, after),
        applied=(_describe_fix(subject, chosen),) if chosen is not None else (),
        alternatives=tuple(_describe_fix(subject, fix, with_diff=True) for fix in others),
        unfixed=()
        if search.fixes
        else (_describe_unfixed(subject, item.finding, search.why_unfixed),),
    )


async def _fix_all(
    checked: Checked, engine: LentEngine, wish: FixWish, show_progress: ShowProgress
) -> FixAnswer:
    from fullgraph.fixes.fixing import APPLICABLE, fixed

    subject = checked.subject
    grades = [grade for grade in APPLICABLE if grade in wish.grades]
    result = await fixed(
        engine,
        checked.request,
        grades=grades,
        backend=wish.backend,
        tell=lambda words: show_progress(f"Fixing {words}"),
    )
    if result.problem:
        raise Refused(f"{subject.path} could not be traced: {result.problem}")
    applied, current = [], subject
    for fix in result.applied:
        applied.append(_describe_fix(current, fix))
        current = current.replace_text(fix.candidate.text)
    alternatives = [
        _describe_fix(current, fix, with_diff=True)
        for offered in result.left
        for fix in offered.search.fixes
    ]
    return FixAnswer(
        subject.path,
        subject.hash,
        f"Found {amount(len(applied), 'edit')} to apply and "
        f"{amount(len(alternatives), 'alternative')}; {amount(len(result.left), 'finding')} would "
        "remain.",
        fixed_hash=text_hash(result.text) if applied else "",
        diff=file_diff(subject.short_path, subject.text, result.text),
        applied=tuple(applied),
        alternatives=tuple(alternatives),
        unfixed=tuple(
            _describe_unfixed(current, offered.finding, offered.search.why_unfixed)
            for offered in result.left
            if not offered.search.fixes
        ),
    )


def _describe_fix(subject: Subject, fix: Fix, *, with_diff: bool = False) -> VerifiedFix:
    """Convert a fix to the format of the tools' answers; ``subject`` has the text that the fix
    changes."""
    first = fix.findings[0]
    diff = file_diff(subject.short_path, subject.text, fix.candidate.text) if with_diff else ""
    return VerifiedFix(
        title=fix.candidate.title,
        grade=fix.grade,
        at=subject.locate(first.range.start),
        code=first.code,
        evidence=verification_words(fix),
        doubt=fix.doubt,
        removes=tuple(_other_places(subject, fix.findings[1:])),
        diff=diff,
    )


def _other_places(subject: Subject, findings: Iterable[Finding]) -> Iterable[str]:
    return dict.fromkeys(
        f"{finding.code} at {subject.locate(finding.range.start)}" for finding in findings
    )


def _describe_unfixed(subject: Subject, finding: Finding, why: str) -> UnfixedFinding:
    return UnfixedFinding(subject.locate(finding.range.start), finding.code, finding.message, why)
