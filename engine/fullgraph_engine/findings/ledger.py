"""The findings of one run, collected while it traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..protocol import Finding, RunId, TraceMode
from ..targets import Tracee
from ..tracing.recording import Break
from . import breaks
from .guard_names import merge_findings


class Ledger:
    """The findings of a run, collected while a target is traced and emitted once each, with counts.

    A trace may be repeated (a new attempt), for example with other values for fake tensors.
    """

    def __init__(self, tracee: Tracee, run: RunId, emit: Callable[[Finding], None]) -> None:
        self._target = tracee.target.name
        self._run = run
        self._mode: TraceMode = "fake" if tracee.fake else "real"
        self._emit = emit
        self._by_identity: dict[str, Finding] = {}
        self._reported: dict[str, Finding] = {}
        self._tally = breaks.Tally()

    @property
    def findings(self) -> list[Finding]:
        return list(self._by_identity.values())

    def begin(self) -> None:
        """Start a new attempt to trace the target: drop findings that were not yet emitted."""
        self._by_identity = dict(self._reported)
        self._tally = breaks.Tally()

    def add(self, finding: Finding) -> None:
        known = self._by_identity.get(finding.identity)
        if known is not None:
            self._by_identity[finding.identity] = merge_findings(known, finding)
            return
        self._put_finding(finding)
        self._emit_finding(finding.identity)

    def add_break(self, finding: Finding, record: Break, *, sure: bool) -> None:
        """Add the finding for a graph break. With ``sure``, emit it at once. Otherwise emit it when
        the trace has succeeded, because a failed trace is repeated.
        """
        again = self._tally.add(finding.identity, record)
        known = self._by_identity.get(finding.identity)
        if known is None or (again and known.evidence != finding.evidence):
            self._put_finding(finding)
        if sure and finding.identity not in self._reported:
            self._emit_finding(finding.identity)

    def finish(self) -> None:
        """Emit the findings that waited for the end of the attempt to trace, and the final counts
        of all findings."""
        for key, count in self._tally.counts().items():
            self._by_identity[key] = dataclasses.replace(self._by_identity[key], count=count)
        for key, finding in self._by_identity.items():
            if self._reported.get(key) != finding:
                self._emit_finding(key)

    def amend(self, finding: Finding) -> None:
        """Replace a finding by a version with a longer explanation, which is emitted at the end."""
        self._by_identity[finding.identity] = finding

    def count(self, family: str) -> int:
        return sum(f.code.startswith(family) for f in self._by_identity.values())

    def _put_finding(self, finding: Finding) -> None:
        self._by_identity[finding.identity] = dataclasses.replace(
            finding, target=self._target, run=self._run, mode=self._mode
        )

    def _emit_finding(self, key: str) -> None:
        self._reported[key] = self._by_identity[key]
        self._emit(self._reported[key])
