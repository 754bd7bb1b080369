"""The lines in which a finding is shown: what happens and what to do, then details."""

from __future__ import annotations

from fullgraph.domain.calls import headline
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import BreakEvidence

MOST = 100
"""Maximum number of characters of the first line of a finding."""

_BREAK = "Graph break: "


def message_lines(finding: Finding) -> list[str]:
    """Return the message of a finding as lines, the first with at most ``MOST`` characters.

    If the first line of the message is longer, the result begins with a part of that line, followed
    by the whole line. An exception's message can be that long.
    """
    return _fit_lines(headline(finding))


def finding_lines(finding: Finding) -> list[str]:
    """Return the message of a finding as lines, followed by what Dynamo did and the explanation."""
    return [*message_lines(finding), *filter(None, (consequence(finding), explanation(finding)))]


def same_cause_lines(finding: Finding, line: int) -> list[str]:
    """Return the message to show for a finding with the same cause as an earlier one.

    ``line`` is the zero-based line of the earlier finding.
    """
    words = headline(finding).removeprefix(_BREAK)
    return _fit_lines(f"Same cause as line {line + 1}: {words}")


def repeated_words(finding: Finding) -> str:
    """Return the words before a list of other places with the cause of a finding."""
    return "the same cause breaks graphs" if finding.causes else "the same exception is raised"


def consequence(finding: Finding) -> str:
    """Return a sentence about what Dynamo did after a graph break; empty if it continued in a new
    graph."""
    evidence = finding.evidence
    return evidence.consequence if isinstance(evidence, BreakEvidence) else ""


def explanation(finding: Finding) -> str:
    """Return the explanation of a finding. For a graph break, it is ``Dynamo:``, Dynamo's title and
    explanation."""
    words = finding.explanation.strip()
    if isinstance(finding.evidence, BreakEvidence):
        title = finding.evidence.title.strip().rstrip(".")
        known = words.startswith(title)
        return f"Dynamo: {words}" if known else f"Dynamo: {title}. {words}".rstrip()
    return "" if words in finding.message else words


def _fit_lines(message: str) -> list[str]:
    first, *more = message.strip().split("\n")
    if len(first) <= MOST:
        return [first, *more]
    return [_cut_line(first), first, *more]


def _cut_line(line: str) -> str:
    """Cut a line to at most ``MOST`` characters, at a space outside of code in backticks."""
    cut = line[: MOST - 3].rpartition(" ")[0] or line[: MOST - 3]
    if cut.count("`") % 2:
        whole = cut.rpartition("`")[0].rstrip()
        cut = whole or f"{cut}`"
    return cut.rstrip(" ,;:") + " …"
