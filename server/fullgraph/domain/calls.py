"""Describe in words in which calls of a compiled function a finding was reported.

Calls are counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullgraph.domain.phrases import listing
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import RecompileEvidence
from fullgraph_engine.protocol.regions import MOST_CALLS

_MOST_PARTS = 4
"""Maximum number of call numbers, or ranges of call numbers, in one message."""


def headline(finding: Finding) -> str:
    """Return the first line to show for a finding: its message.

    For a recompile, the first call of the compiled function that caused it is added.
    """
    if not isinstance(finding.evidence, RecompileEvidence) or not finding.calls:
        return finding.message
    first = finding.calls[0]
    region = "" if _is_message_subject(finding.evidence, first.region) else f" of `{first.region}`"
    return f"{finding.message}, in call {first.numbers[0]}{region}"


def calls_clause(finding: Finding) -> str:
    """Describe in which calls of the compiled function a finding was reported: ``in calls 2 to 9 of
    `train```.

    Calls that the finding's headline mentions are left out. Empty if the first call reported it.
    """
    calls = finding.calls
    if isinstance(finding.evidence, RecompileEvidence):
        if len(calls) == 1 and len(calls[0].numbers) == 1:
            return ""
    elif any(one.numbers[0] == 1 for one in calls):
        return ""
    return listing(f"in {_call_words(one.numbers)} of `{one.region}`" for one in calls)


def _is_message_subject(evidence: RecompileEvidence, region: str) -> bool:
    """Whether the compiled function ``region`` itself was recompiled, not a function that it
    calls.
    """
    return region.partition("[")[0].rpartition(".")[2] == evidence.function


def _call_words(numbers: Sequence[int]) -> str:
    parts = list(_ranges(numbers))
    more = len(numbers) >= MOST_CALLS or len(parts) > _MOST_PARTS
    parts = [*parts[:_MOST_PARTS], "later ones"] if more else parts
    return f"call{'s' if len(numbers) > 1 else ''} {listing(parts)}"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield increasing numbers as words: ``2``, or ``4 to 9`` for consecutive numbers.

    At least three numbers become a range.
    """
    start = 0
    for index, number in enumerate(numbers):
        if index + 1 < len(numbers) and numbers[index + 1] == number + 1:
            continue
        if index - start >= 2:
            yield f"{numbers[start]} to {number}"
        else:
            yield from map(str, numbers[start : index + 1])
        start = index + 1
