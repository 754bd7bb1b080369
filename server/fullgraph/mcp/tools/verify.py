"""The tool ``verify``: find out how an edit of the caller changes findings, results and
gradients."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from fullgraph import fixes
from fullgraph.domain.phrases import amount, listing
from fullgraph.incremental import KnownTarget, align_versions, find_unaffected, parse_text
from fullgraph.mcp.analysis import Analyzer, Checked
from fullgraph.mcp.answers import ChangedFinding, ComparedBehavior, Refused, VerifyAnswer
from fullgraph.mcp.engines import LentEngine
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject
from fullgraph.mcp.tools.changes import changed_targets, compare_checked
from fullgraph_engine.protocol import Compared

_MOST_COMPARED = 6
"""Maximum number of functions whose behavior is compared in one call."""


async def verify(
    analyzer: Analyzer, subject: Subject, changed: str, target: str, show_progress: ShowProgress
) -> VerifyAnswer:
    """Check the text ``changed`` against the text of ``subject``, and compare the behavior of the
    functions that both trace and that the edit can affect.

    ``target`` restricts both to one function or class; empty for all.

    Raises:
        Refused: A text could not be traced, or both are equal.
    """
    after_subject = subject.replace_text(changed)
    if after_subject.hash == subject.hash:
        raise Refused(
            "The changed text equals the text of the file, so there is nothing to verify."
        )
    before = await analyzer.check(subject, show_progress, target=target)
    after = await analyzer.check(after_subject, show_progress, target=target)
    difference, findings = compare_checked(before, after, ("before", "after"))
    differing = [target.name for _, target in difference.each_target() if target.name]
    names = _comparable_targets(before, after, differing)
    await fixes.load()
    async with analyzer.engine(subject.own, show_progress) as (engine, _):
        behavior = await analyzer.run_cancellable(
            _compare_behavior(engine, before, changed, names[:_MOST_COMPARED], show_progress)
        )
    notes = [*dict.fromkeys((*before.notes, *after.notes))]
    if names[_MOST_COMPARED:]:
        notes.append(f"The behavior was not compared for {listing(names[_MOST_COMPARED:])}.")
    return VerifyAnswer(
        subject.path,
        subject.hash,
        after_subject.hash,
        _verdict(findings, behavior),
        tuple(findings),
        tuple(behavior),
        tuple(changed_targets(difference)),
        tuple(notes),
    )


def page_verification(answer: VerifyAnswer, paging: Paging) -> VerifyAnswer:
    """Return the part of an answer that fits into the budget.

    Raises:
        Refused: The cursor belongs to another text, or is invalid.
    """
    page = paging.page_items([*answer.behavior, *answer.findings])
    return dataclasses.replace(
        answer,
        behavior=tuple(one for one in page.items if isinstance(one, ComparedBehavior)),
        findings=tuple(one for one in page.items if isinstance(one, ChangedFinding)),
        cursor=page.cursor,
    )


def _comparable_targets(before: Checked, after: Checked, first: Iterable[str]) -> list[str]:
    """Return the names of the functions whose behavior to compare, the functions in ``first`` at
    the beginning.

    Only functions that both texts trace and the edit can affect are compared. If the edit cannot
    affect any, all functions that both texts trace are compared.
    """
    # Include functions that raise an exception, because it is a part of their behavior.
    sides = [
        dict.fromkeys(one.name for one in side.file.targets if one.status in ("traced", "failed"))
        for side in (before, after)
    ]
    common = [name for name in sides[0] if name in sides[1]]
    unaffected = _find_unaffected(before.subject.text, after.subject.text, common)
    chosen = [name for name in common if name not in unaffected] or common
    return [name for name in dict.fromkeys((*first, *chosen)) if name in common]


def _find_unaffected(before: str, after: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names of the functions that the edit does not affect: their code, and all code
    that they use, is unchanged."""
    parsed = [parse_text(text) for text in (before, after)]
    if parsed[0] is None or parsed[1] is None:
        return frozenset()
    change = align_versions(parsed[0], parsed[1])
    known = [KnownTarget(name, "written") for name in names]
    return find_unaffected(parsed[0], parsed[1], change, known) if change else frozenset()


async def _compare_behavior(
    engine: LentEngine,
    before: Checked,
    changed: str,
    names: Iterable[str],
    show_progress: ShowProgress,
) -> list[ComparedBehavior]:
    from fullgraph.fixes.tracing import Traced
    from fullgraph.fixes.verification import Verifier

    known = Traced(before.subject.text, reports=before.file.targets)
    verifier = Verifier(engine, before.request, traced=known)
    found: dict[str, tuple[Compared, ...]] = {}
    for name in names:
        show_progress(f"Comparing {name}")
        found[name] = await verifier.compare(changed, name)
    covered = _reach_all_lines([eager for eager, *_ in found.values()])
    return [_describe(name, compared, covered=covered) for name, compared in found.items()]


def _reach_all_lines(compared: Sequence[Compared]) -> bool:
    """Whether the compared functions together reached every changed line."""
    if not compared:
        return False
    original = set.intersection(*(set(one.unreached) for one in compared))
    return not (original or set.intersection(*(set(one.unreached_in_changed) for one in compared)))


def _describe(name: str, compared: tuple[Compared, ...], *, covered: bool) -> ComparedBehavior:
    """Describe the comparisons of a function in eager mode and compiled.

    ``covered`` is true if other functions reach the changed lines that this function does not
    reach.
    """
    eager, *compiled = compared
    if covered and eager.equal_where_reached:
        eager = dataclasses.replace(eager, outcome="same", reason="")
    reasons = dict.fromkeys(filter(None, (one.reason for one in (eager, *compiled))))
    return ComparedBehavior(
        name,
        eager.outcome,
        len(eager.cases),
        eager.exact,
        " ".join(reasons),
        compiled[-1].outcome if compiled else "",
        tuple(dict.fromkeys(note for one in compared for note in one.notes)),
    )


def _verdict(findings: list[ChangedFinding], behavior: list[ComparedBehavior]) -> str:
    """Return a summary: the number of removed, remaining and new findings, and whether results and
    gradients are the same."""
    counts = Counter(finding.change for finding in findings)
    parts = [
        f"{counts['gone']} {'finding' if counts['gone'] == 1 else 'findings'} gone",
        f"{counts['remains'] + counts['changed']} remain",
        f"{counts['new']} new",
    ]
    if counts["unknown"]:
        parts.append(f"{counts['unknown']} unknown")
    words = ", ".join(parts)
    differing = [one.target for one in behavior if one.outcome == "differs"]
    compiled = [
        one.target for one in behavior if one.compiled == "differs" and one.target not in differing
    ]
    unverified = [
        one.target
        for one in behavior
        if one.target not in (*differing, *compiled) and "unverified" in (one.outcome, one.compiled)
    ]
    if differing:
        return f"{words}. Results or gradients differ in {listing(differing)}."
    if compiled:
        return f"{words}. The compiled code fails or gives other results in {listing(compiled)}."
    if unverified or not behavior:
        where = f" in {listing(unverified)}" if unverified else ""
        return f"{words}. Equal results and gradients could not be verified{where}."
    tests = amount(sum(one.tests for one in behavior), "test")
    return f"{words}. Results and gradients are the same in {tests}."
