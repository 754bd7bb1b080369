"""Describe in words what was traced in a file, what was not, and how to change that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fullgraph.domain.file_summary import (
    TARGET_GAPS,
    FileSummary,
    FindingCounts,
    Gap,
    NotTraced,
    Obstacle,
)
from fullgraph.domain.phrases import amount, brief_listing, line_blocks

_MOST_NAMES = 3
"""Maximum number of names in a sentence; further ones are counted."""

_BRIEF: dict[Gap, str] = {
    Gap.NO_INPUTS: "without inputs",
    Gap.NOT_COMPILED: "not compiled",
    Gap.FAILED: "failed",
    Gap.TIME_LIMIT: "over the time limit",
}
_WHY: dict[Gap, str] = {
    Gap.NO_INPUTS: "no inputs are known",
    Gap.NOT_COMPILED: "the program does not compile it",
    Gap.FAILED: "tracing it failed",
    Gap.TIME_LIMIT: "the time limit of the file was reached",
    Gap.INHERITED: "it inherits `forward`",
    Gap.METHOD: "no trace calls this method",
    Gap.FUNCTION: "no trace calls this function",
}


def summary_title(summary: FileSummary) -> str:
    """Summarize what was traced in a few words: ``3 of 5 traced, 2 without inputs``."""
    if not summary.relevant:
        return "no PyTorch code"
    if not summary.targets:
        return "tracing" if summary.tracing else "not traced"
    words = f"{summary.traced:,} of {summary.targets:,} traced"
    briefs = [
        f"{number:,} {brief}"
        for gap, brief in _BRIEF.items()
        if (number := sum(one.gap is gap for one in summary.not_traced))
    ]
    if unreached := sum(one.gap not in TARGET_GAPS for one in summary.not_traced):
        briefs.append(f"{unreached:,} not reached")
    return ", ".join([words, *briefs])


def finding_words(summary: FileSummary) -> str:
    """Describe the number of findings: ``2 findings, 1 note``. Empty if nothing was traced, because
    the absence of findings would mean nothing."""
    if summary.counts == FindingCounts() and not summary.traced:
        return ""
    return count_words(summary.counts)


def count_words(counts: FindingCounts) -> str:
    """Describe numbers of findings: ``2 findings, 1 note``."""
    words = [amount(counts.problems, "finding")] if counts.problems or not counts.notes else []
    words += [amount(counts.notes, "note")] if counts.notes else []
    if counts.repeats:
        words.append(f"{amount(counts.repeats, 'more place')} with the same cause")
    return ", ".join(words)


def summary_lines(summary: FileSummary) -> list[str]:
    """Return sentences on what was not traced, why, and what the user can do; empty if nothing was
    left out."""
    if not summary.relevant:
        return ["This file has no PyTorch code to trace."]
    if summary.obstacle is not None:
        return [obstacle_words(summary.obstacle), summary.obstacle.next_step]
    lines = list(_gap_sentences(summary.not_traced))
    if missed := summary.missed_lines:
        are = "was" if len(missed) == 1 else "were"
        lines.append(f"{amount(len(missed), 'line')} {are} not reached: {line_blocks(missed)}.")
    return lines


def obstacle_words(obstacle: Obstacle) -> str:
    """Describe why nothing of a file was traced: ``Not traced: …``."""
    return f"Not traced: {_lower_first(obstacle.reason)}"


def why_not_traced(one: NotTraced) -> str:
    """Return the reason why a function or module was not traced, as the end of a sentence."""
    return _WHY[one.gap]


def _gap_sentences(not_traced: Iterable[NotTraced]) -> Iterator[str]:
    by_gap: dict[Gap, list[str]] = {gap: [] for gap in Gap}
    for one in not_traced:
        by_gap[one.gap].append(one.name)
    for gap, names in by_gap.items():
        if names:
            yield _gap_sentence(gap, brief_listing(names, _MOST_NAMES))


def _gap_sentence(gap: Gap, named: str) -> str:
    match gap:
        case Gap.NO_INPUTS:
            return f"No inputs are known for {named}. To trace one, write a probe comment above it."
        case Gap.NOT_COMPILED:
            return f"Not compiled by the program: {named}."
        case Gap.FAILED:
            return f"Failed: {named}. The code lens above each shows the error."
        case Gap.TIME_LIMIT:
            return (
                f"Not traced, because the time limit of the file was reached: {named}. To trace "
                "one, click the code lens above it."
            )
        case Gap.INHERITED:
            return (
                f"These classes inherit `forward`: {named}. To trace one, write a probe comment "
                "such as `# fullgraph: f32[4, 16]` above it."
            )
        case Gap.METHOD:
            return (
                f"No trace calls these methods: {named}. To trace one, write a probe comment "
                "above it."
            )
        case Gap.FUNCTION:
            return (
                f"No trace calls these functions: {named}. To trace one, write a probe comment "
                "above it."
            )


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
