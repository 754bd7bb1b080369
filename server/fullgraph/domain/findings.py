"""A finding as the user sees it, merged from all runs that reported it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph.domain.codes import Severity
from fullgraph_engine.protocol import Finding, Range


@dataclass(frozen=True)
class FileFinding:
    """A finding as it is displayed: one finding for all runs that reported it.

    ``finding.count`` is the sum over these runs; ``finding.target`` is the first of ``targets``.
    """

    finding: Finding
    severity: Severity
    targets: tuple[str, ...]
    href: str
    run_findings: tuple[Finding, ...] = ()
    """Findings that were merged into this one, one for each run."""
    same_as: Range | None = None
    """Range of the first finding with the same causes; None if this is the first."""
    also: tuple[Range, ...] = ()
    """Ranges of the later findings with the same causes; set on the first one only."""

    def finding_of_run(self, target: str, probe: int) -> Finding | None:
        """Return what the run of a target with one probe reported; None if it did not report this
        finding."""
        for finding in self.run_findings:
            if finding.target == target and (finding.run is None or finding.run.probe == probe):
                return finding
        return None


def keep_latest(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the latest version of each finding.

    A run reports a finding again to raise its count, and with a count of 0 to withdraw it.
    """
    known: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        can_be_updated = finding.run and finding.identity
        known[(finding.run, finding.code, finding.identity) if can_be_updated else number] = finding
    return tuple(finding for finding in known.values() if finding.count)
