"""Describe the differences of two checks in words, for the text and Markdown formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullgraph.cli.check_report import ReportedTarget
from fullgraph.cli.diff.difference import (
    CheckDifference,
    ComparedCheck,
    Count,
    FindingDifference,
    Kind,
    RunDifference,
    TargetDifference,
    Uncomputed,
    code_family,
    outcome_words,
)
from fullgraph.domain.codes import Severity
from fullgraph.domain.phrases import SEPARATOR, amount

_OTHERS: dict[Kind, str] = {"gone": "gone", "changed": "changed", "unknown": "not compared"}
_COUNT_WORDS: dict[Count, str] = {"skips": "skipped frames"}


def side_words(compared: ComparedCheck) -> str:
    """Describe one of the compared checks: ``old/bin/python: torch 2.6.0, Python 3.11.7``."""
    versions = [
        f"{name} {version}"
        for name, version in (("torch", compared.torch), ("Python", compared.python))
        if version
    ]
    return f"{compared.name}: {', '.join(versions)}" if versions else compared.name


def headline(difference: CheckDifference) -> Iterator[tuple[str, Severity | None]]:
    """Yield the parts of the headline, each with a severity or None.

    New findings come first, with their severity; counts of other differences follow with None.
    """
    counts = Counter(finding.severity for finding in difference.findings("new"))
    if difference.lost:
        yield f"{amount(difference.lost, 'target')} no longer traced", Severity.ERROR
    for severity in Severity:
        if counts[severity]:
            # "Information" does not have a plural.
            information = severity is Severity.INFORMATION
            noun = "information finding" if information else severity.value
            yield amount(counts[severity], f"new {noun}"), severity
    if not counts and not difference.lost:
        if difference.incomplete:
            what = "Not everything" if difference.targets else "Nothing"
            yield f"{what} could be compared", None
        else:
            yield "Nothing new" if difference.files else "No differences", None
    for kind, word in _OTHERS.items():
        number = len(difference.findings(kind))
        if number:
            yield f"{number} {word}", None


def extent_words(difference: CheckDifference) -> str:
    """Describe how many targets were compared: ``; 14 targets, 2 differ, 1 not compared``.

    Returns an empty string if no target was traced.
    """
    if not difference.targets:
        return ""
    numbers = [
        (difference.differing, "differs" if difference.differing == 1 else "differ"),
        (difference.uncompared, "not compared"),
        (difference.untraced, "traced on neither side"),
    ]
    parts = [f"{number} {word}" for number, word in numbers if number]
    return "; " + ", ".join([amount(difference.targets, "target"), *parts])


def count_remarks(difference: CheckDifference) -> Iterator[str]:
    """Yield a sentence for each count, such as graph breaks, that the torch of one side cannot
    report."""
    for missing in difference.missing_counts:
        name = _COUNT_WORDS.get(missing.count, missing.count)
        torch = difference.side_check(missing.side).torch
        where = amount(missing.targets, "target")
        yield (
            f"fullgraph cannot count {name} with torch {torch} ({missing.side}), and did not "
            f"compare them in {where}."
        )


def run_words(run: RunDifference, target: TargetDifference) -> str:
    """Describe how the result of tracing a target differs between the two checks.

    Examples are ``graphs 2 → 3 · breaks 1 → 2``, ``traced → failed: ValueError: …`` and ``new
    target · …``.
    """
    # Omit the error message if a finding of the target shows it. It does unless the user ignores
    # the finding's code.
    brief = any(code_family(finding.shown.code) == "trace" for finding in target.findings)
    if run.uncomputed is not None and (run.old is None or run.new is None):
        found = "old" if run.uncomputed.side == "new" else "new"
        return f"only in {found}, {_uncomputed_words(run.uncomputed)}"
    if run.old is None or run.new is None:
        return SEPARATOR.join([f"{run.kind} target", *_outcome_words(run.shown, brief)])
    old, new = run.old, run.new
    facts = []
    if old.status != new.status:
        facts.append(f"{outcome_words(old, brief=brief)} → {outcome_words(new, brief=brief)}")
    if old.inputs != new.inputs and run.traced:
        facts.append(_input_words(old, new))
    if old.mode != new.mode and run.traced:
        facts.append(f"{old.mode} → {new.mode}")
    for name, before, after in run.counts:
        facts.append(
            f"{_COUNT_WORDS.get(name, name)} {_number_words(before)} → {_number_words(after)}"
        )
    if run.uncomputed is not None:
        facts.append(f"incomplete in {run.uncomputed.side}")
    return SEPARATOR.join(facts)


def _input_words(old: ReportedTarget, new: ReportedTarget) -> str:
    """Describe inputs: ``inputs f32[4] → f32[8] (each side has its own probe comment)``."""
    sides = [one.origin == "comment" for one in (old, new)]
    if all(sides):
        reason = " (each side has its own probe comment)"
    elif any(sides):
        reason = " (only one side has a probe comment)"
    else:
        reason = ""
    return f"inputs {old.inputs or 'none'} → {new.inputs or 'none'}{reason}"


def target_name(target: TargetDifference, run: RunDifference | None = None) -> str:
    """Return the name of a target, with the inputs of ``run`` if results for several inputs
    differ."""
    inputs = run.shown.inputs if run is not None and len(target.runs) > 1 else ""
    return f"{target.name} ({inputs})" if inputs else target.name


def change_words(change: FindingDifference) -> str:
    """Describe what was different in the old version of a changed finding: ``was: Unsupported
    Tensor.item()``.

    Empty for findings without an old or without a new version.
    """
    old, new = change.old, change.new
    if change.kind != "changed" or old is None or new is None:
        return ""
    words = []
    if old.code != new.code:
        words.append(f"was {old.code}")
    if old.severity != new.severity:
        words.append(f"was {old.severity.value}")
    if old.message != new.message:
        words.append(f"was: {first_line(old.message)}")
    if old.count != new.count:
        words.append(f"reached {old.count} → {new.count} times")
    return ", ".join(words)


def unknown_words(target: TargetDifference) -> Iterator[str]:
    """Yield a clause for each reason why findings of a target could not be compared."""
    reasons = Counter(
        finding.uncomputed for finding in target.findings if finding.uncomputed is not None
    )
    # If a result of the target could not be compared, its line gives the reason already.
    unexplained = not any(run.uncompared for run in target.runs)
    for uncomputed, number in reasons.items():
        found = "old" if uncomputed.side == "new" else "new"
        reason = (
            _uncomputed_words(uncomputed) if unexplained else f"not checked in {uncomputed.side}"
        )
        yield f"{amount(number, 'finding')} only in {found}, {reason}"


def first_line(text: str) -> str:
    """Return the first non-blank line of a text; empty if all lines are blank."""
    return next(iter(text.strip().splitlines()), "")


def _uncomputed_words(uncomputed: Uncomputed) -> str:
    return f"not checked in {uncomputed.side}: {uncomputed.reason}"


def _outcome_words(run: ReportedTarget, brief: bool) -> list[str]:
    if run.status != "traced":
        return [outcome_words(run, brief=brief)]
    numbers = ((run.graphs, "graph"), (run.ops, "op"), (run.breaks, "break"))
    return [amount(number, noun) for number, noun in numbers if number is not None]


def _number_words(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
