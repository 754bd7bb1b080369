"""Findings of one run, derived from recordings of what Dynamo did."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..protocol import Finding, Range
from ..targets import Target
from ..tracing.recording import Equality, Recording, Specialization
from . import (
    breaks,
    dimensions,
    explanations,
    failures,
    operators,
    recompiles,
    value_guards,
)
from .break_costs import BreakCosts
from .data_sizes import DataSizes
from .ledger import Ledger
from .places import SourceText

if TYPE_CHECKING:
    from ..shapes import Tape


class RecordingFindings:
    """A reporter of the findings that the recordings of one run contain.

    Set ``given`` and ``asked_dynamic`` before each trace.
    """

    def __init__(self, source: SourceText, target: Target, ledger: Ledger) -> None:
        self.source, self.target, self.ledger = source, target, ledger
        self.given = value_guards.CalledWith()
        """Traced call: the code of its function, and its arguments."""
        self.asked_dynamic = False
        """True if the user made dimensions dynamic, in the example inputs or in the code."""
        self.retraced_raises = False
        """True if the call raises when its batch size is changed."""
        self._tapes: Sequence[Tape] = ()
        self._explainer: explanations.Explainer | None = None
        self._unexplained: dict[str, Specialization | Equality] = {}
        """Recorded events that specialized or equated sizes, by the identity of their finding,
        which gets its explanation later."""

    @contextlib.contextmanager
    def record_tapes(self, wanted: bool = True) -> Iterator[None]:
        """Record the operations on sizes in the ``with`` block, to explain findings about sizes.

        ``wanted``: False to record nothing.
        """
        with explanations.record_tapes(wanted) as self._tapes:
            yield

    def report(self, recording: Recording) -> None:
        """Report the findings of a recording at once, without explanations that take long to
        compute."""
        for loss in recording.losses:
            self.ledger.add(failures.loss_finding(loss, self.target.range))
        for skip in recording.skips:
            finding = breaks.skip_finding(skip, self.source)
            if finding is not None:
                self.ledger.add(finding)
        for op in recording.custom_ops:
            if not op.compliant:
                self.ledger.add(operators.operator_finding(op, self.source, self.target.range))
        for finding in recompiles.recompile_findings(recording, self.source, self.target.range):
            self.ledger.add(finding)
        for finding in value_guards.value_guard_findings(
            recording, self.source, self.given, self.target.range
        ):
            self.ledger.add(finding)
        if self.asked_dynamic:
            self.report_specialized(recording, tried=False)
            for event, finding in dimensions.equality_findings(
                recording, self.source, self.target.range
            ):
                self.ledger.add(finding)
                self._unexplained.setdefault(finding.identity, event)

    def report_specialized(
        self, recording: Recording, *, tried: bool, axes: frozenset[int] | None = None
    ) -> None:
        """Report dynamic dimensions that the code made constant or limited.

        ``axes`` are the numbers of the dimensions to report, for example 0; None for all. Other
        dimensions become dynamic if layers of different widths share their code. ``tried``: the
        engine made the dimensions dynamic to test them. Then code that continues after a graph
        break is left out if the call works with other sizes, because only some inputs of that code
        were resized.
        """
        drops = tried and not self.retraced_raises
        resumed = {frame.id for frame in recording.frames if drops and frame.resumed}
        found: dict[tuple[int, object], tuple[Specialization, Finding]] = {}
        for event in recording.specializations:
            if event.frame in resumed or not dimensions.is_size(event, recording, axes):
                continue  # an integer argument that Dynamo made symbolic by itself
            finding = dimensions.specialization_finding(
                event,
                recording,
                self.source,
                self.target.range,
                tried,
                raises=self.retraced_raises,
            )
            # If Dynamo restarts its analysis, it specializes the dimension again. The batch sizes
            # of several inputs are one size for the user.
            key = (event.frame, finding.range.start.line if tried else finding.identity)
            if key not in found or (tried and _is_narrower(finding.range, found[key][1].range)):
                found[key] = event, finding
        for event, finding in found.values():
            self.ledger.add(finding)
            self._unexplained.setdefault(finding.identity, event)
        constant = {(event.frame, event.symbol) for event in recording.specializations}
        for limit in recording.limits:
            if limit.frame in resumed or (limit.frame, limit.symbol) in constant:
                continue
            if dimensions.is_size(limit, recording, axes):
                self.ledger.add(
                    dimensions.limit_finding(
                        limit, recording, self.source, self.target.range, tried
                    )
                )

    def _make_explainer(self, recording: Recording) -> explanations.Explainer:
        if self._explainer is None or self._explainer.recording is not recording:
            self._explainer = explanations.Explainer(self._tapes, recording, self.source)
        return self._explainer

    def explain(self, recording: Recording) -> None:
        """Compute explanations of findings about sizes that were already reported, and report the
        findings again with them."""
        sizes = DataSizes(recording, self.source)
        costs = BreakCosts(recording, self.source, self.target.range, self.target.name)
        explainer = self._make_explainer(recording) if self._tapes else None
        for finding in self.ledger.findings:
            event = self._unexplained.get(finding.identity)
            if event is not None and explainer is not None:
                self.ledger.amend(
                    dimensions.explain_finding(finding, explainer.explain_event(event))
                )
            if not finding.code.startswith("graph-break/"):
                continue
            amended = explainer.with_explanation(finding) if explainer is not None else finding
            amended = dataclasses.replace(
                sizes.with_data_sizes(amended),
                causes=costs.causes(finding.identity) or finding.causes,
                cost=costs.cost(finding),
            )
            if amended != finding:
                self.ledger.amend(amended)

    def explain_failure(self, finding: Finding, recording: Recording) -> Finding:
        """Return the finding for an exception about sizes, with the lines that led to it; unchanged
        if they are unknown."""
        return self._make_explainer(recording).with_explanation(finding) if self._tapes else finding


def _is_narrower(one: Range, other: Range) -> bool:
    """Whether the range ``one`` lies inside ``other`` on a single line, and is smaller."""
    inside = other.start <= one.start and one.end <= other.end
    return inside and one != other
