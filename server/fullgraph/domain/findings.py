"""A finding as the user sees it, merged from all runs that reported it.

A run traces a function with one set of inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fullgraph.domain.codes import Severity
from fullgraph_engine.protocol import Finding, Range, place_words
from fullgraph_engine.protocol.evidence import BreakEvidence


@dataclass(frozen=True)
class FileFinding:
    """A finding (a graph break, recompile or other problem) as it is displayed, merged from all
    runs that reported it.

    A run traces a function with one set of inputs. ``finding.count`` is the sum over the runs.
    ``targets`` are the names of the traced functions, ``finding.target`` is the first. ``href`` is
    the URL of the documentation.
    """

    finding: Finding
    severity: Severity
    targets: tuple[str, ...]
    href: str
    run_findings: tuple[Finding, ...] = ()
    """Findings that were merged into this one, one for each run."""
    id: str = ""
    """Identifier of the finding, unique in its file. It stays the same after later traces."""
    same_as: Range | None = None
    """Range of the first finding in the file with the same causes; None if this finding is the
    first, or shares no cause."""
    also: tuple[Range, ...] = ()
    """Ranges of the later findings in the file with the same causes; only set on the first one."""

    @property
    def shown_severity(self) -> Severity:
        """Severity that editors show: at most information for a repetition of an earlier finding
        with the same cause."""
        if self.same_as is None:
            return self.severity
        return max(self.severity, Severity.INFORMATION, key=lambda one: one.number)

    def finding_of_run(self, target: str, probe: int) -> Finding | None:
        """Return the finding as one run reported it; None if the run did not report it.

        The run traced ``target`` with one set of inputs; ``probe`` is the number of the set, from
        0.
        """
        for finding in self.run_findings:
            if finding.target == target and (finding.run is None or finding.run.probe == probe):
                return finding
        return None


def add_ids(items: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """Return the findings with an ``id``, by which a later trace's findings can be matched.

    Findings that differ only in their source range are numbered in the given order, which must be
    the order of the text.
    """
    numbers: dict[tuple[str, str], int] = {}
    identified = []
    for item in items:
        finding = item.finding
        identity = finding.identity.replace(place_words(finding.range), "") or finding.message
        key = finding.code, identity
        numbers[key] = number = numbers.get(key, 0) + 1
        digest = hashlib.sha256("\0".join((*key, str(number))).encode("utf-8", "replace"))
        identified.append(replace(item, id=digest.hexdigest()[:12]))
    return tuple(identified)


def find_by_id(items: Iterable[FileFinding], id_: object) -> FileFinding | None:
    """Return the finding with an id; None if it does not exist any more."""
    return next((item for item in items if item.id == id_), None)


def undecided_condition(finding: Finding) -> str:
    """Return the condition on tensor data at which the graph breaks, as Dynamo writes it
    (``Eq(u0, 0)``); empty for other findings."""
    evidence = finding.evidence
    return evidence.condition if isinstance(evidence, BreakEvidence) else ""


def keep_latest(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the last reported version of each finding, without withdrawn findings.

    A run reports a finding again to raise its count, and with a count of 0 to withdraw it.
    """
    known: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        can_be_updated = finding.run and finding.identity
        known[(finding.run, finding.code, finding.identity) if can_be_updated else number] = finding
    return tuple(finding for finding in known.values() if finding.count)
