"""A finding as it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph.domain.codes import Severity
from fullgraph_engine.protocol import Finding, Range


@dataclass(frozen=True)
class FileFinding:
    """A finding as it is shown: once, however many runs reached it.

    ``finding.count`` is the sum over all runs; ``finding.target`` is the first of ``targets``.
    """

    finding: Finding
    severity: Severity
    targets: tuple[str, ...]
    href: str
    told: tuple[Finding, ...] = ()
    """What each run said."""
    same_as: Range | None = None
    """The place of the first finding that has its causes, where it is another one."""
    also: tuple[Range, ...] = ()
    """Of a first one: the places of the others."""

    def of_run(self, target: str, probe: int) -> Finding | None:
        """What the run of a target with one of its probes said; None if it did not reach it."""
        for finding in self.told:
            if finding.target == target and (finding.run is None or finding.run.probe == probe):
                return finding
        return None


def latest(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Without what the same run has said again with a higher count, or has taken back."""
    known: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        said_again = finding.run and finding.identity
        known[(finding.run, finding.code, finding.identity) if said_again else number] = finding
    return tuple(finding for finding in known.values() if finding.count)
