"""The calls of a program's regions in which a finding was seen, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullgraph.domain.phrases import listing
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import RecompileEvidence
from fullgraph_engine.protocol.regions import MOST_CALLS

_MOST_PARTS = 4
"""Numbers, or ranges of numbers, that are listed."""


def headline(finding: Finding) -> str:
    """The message of a finding; of a recompile with the call that it was first seen in."""
    if not isinstance(finding.evidence, RecompileEvidence) or not finding.calls:
        return finding.message
    first = finding.calls[0]
    region = "" if _names(finding.evidence, first.region) else f" of `{first.region}`"
    return f"{finding.message}, in call {first.numbers[0]}{region}"


def calls_clause(finding: Finding) -> str:
    """The calls of a finding as far as its headline does not say them, such as ``in calls 2 to 9 of
    `train```; empty if it was seen in the first call of a region."""
    calls = finding.calls
    if isinstance(finding.evidence, RecompileEvidence):
        if len(calls) == 1 and len(calls[0].numbers) == 1:
            return ""
    elif any(one.numbers[0] == 1 for one in calls):
        return ""
    return listing(f"in {_words(one.numbers)} of `{one.region}`" for one in calls)


def _names(evidence: RecompileEvidence, region: str) -> bool:
    """Whether the recompiled function, which the message names, is the region itself."""
    return region.partition("[")[0].rpartition(".")[2] == evidence.function


def _words(numbers: Sequence[int]) -> str:
    parts = list(_ranges(numbers))
    more = len(numbers) >= MOST_CALLS or len(parts) > _MOST_PARTS
    parts = [*parts[:_MOST_PARTS], "later ones"] if more else parts
    return f"call{'s' if len(numbers) > 1 else ''} {listing(parts)}"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Increasing numbers with three or more neighbors as ranges: ``2``, ``4 to 9``."""
    start = 0
    for index, number in enumerate(numbers):
        if index + 1 < len(numbers) and numbers[index + 1] == number + 1:
            continue
        if index - start >= 2:
            yield f"{numbers[start]} to {number}"
        else:
            yield from map(str, numbers[start : index + 1])
        start = index + 1
