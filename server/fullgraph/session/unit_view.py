"""Findings, reports and traced values of one open file, as an editor shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fullgraph.domain.causes import group_by_cause
from fullgraph.domain.codes import Severity, documentation_url
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport
from fullgraph.operators import Seen
from fullgraph.results import Results
from fullgraph.results.forecasts import TargetForecast
from fullgraph.results.guards import guard_findings
from fullgraph.results.seen import SeenByTarget, seen_in
from fullgraph.results.shapes import ShapesByTarget, all_shapes
from fullgraph.session.documents import Document
from fullgraph.session.findings import merge_findings, sort_findings
from fullgraph.session.ignores import has_ignore_comments, remove_ignored, unused_ignores
from fullgraph.session.probe_runs import place_probe_findings
from fullgraph.session.request import TraceInputs
from fullgraph.session.trace_extent import TraceExtent
from fullgraph_engine.protocol import Degraded, Finding, Position, Range, TargetReport
from fullgraph_engine.protocol.shapes import PlaceShapes


class TracedFile(Protocol):
    """An open file with its results."""

    document: Document
    inputs: TraceInputs

    @property
    def results(self) -> Results:
        """Latest results, with source ranges in the current text."""

    @property
    def is_idle(self) -> bool:
        """Whether no run is in progress or scheduled."""

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """Facts about traces that the torch of the latest results does not show completely."""


@dataclass(frozen=True)
class _SeenNow:
    """Cache of the kinds of values (such as tensor or module) that traces saw at offsets of the
    current text; valid while text and results are unchanged.
    """

    positions: TextPositions
    targets: Mapping[str, SeenByTarget]
    seen: Seen


@dataclass(frozen=True)
class _ShapesNow:
    """Cache of the shapes that traces saw, in the order of the text; valid while the results are
    unchanged.
    """

    targets: Mapping[str, ShapesByTarget]
    places: tuple[PlaceShapes, ...]


class UnitView:
    """The results of an open file in the form that the editor displays."""

    def __init__(self, file: TracedFile) -> None:
        self._file = file
        self._seen: _SeenNow | None = None
        self._shapes: _ShapesNow | None = None
        self._extent = TraceExtent()
        """Lines and codes about which the last complete traces are conclusive."""
        self._unused_lines: frozenset[str] = frozenset()
        """Texts of lines with an ignore comment that hid nothing in the last complete traces."""
        self.guards_shown: set[str] = set()
        """Names of the targets for which the user wants all guards shown as diagnostics."""
        self.untraced_shown: set[str] = set()
        """Names of the targets for which the user inverted the setting that fades lines that no
        trace reached.
        """

    def all_findings(self) -> tuple[FileFinding, ...]:
        """Return all findings, including findings hidden by an ignore comment."""
        results, inputs, shown = self._file.results, self._file.inputs, self.reports()
        positions, name = self._file.document.positions, self._file.document.name
        findings = place_probe_findings(
            results.findings(with_forecasts=inputs.settings.forecast), shown, positions, name
        )
        found = merge_findings(findings, inputs.settings, results.names, inputs.folder)
        reports = [one.report for one in shown]
        faded = self.faded
        if not (self.guards_shown or faded):
            return found
        return (
            *found,
            *guard_findings(sorted(self.guards_shown), results.guards, reports),
            *untraced_findings(sorted(faded), reports, positions),
        )

    def findings(self) -> tuple[FileFinding, ...]:
        """Return the findings shown in the editor."""
        found, positions = self.all_findings(), self._file.document.positions
        shown = group_by_cause(remove_ignored(found, positions))
        unused = self._unused_ignores(found)
        return sort_findings((*shown, *unused)) if unused else shown

    def _unused_ignores(self, found: Sequence[FileFinding]) -> tuple[FileFinding, ...]:
        """Return findings about ignore comments that hide none of ``found``.

        While the file is traced again, lines with unchanged text keep their last result.
        """
        file, positions = self._file, self._file.document.positions
        if not has_ignore_comments(positions):
            return ()
        settings = file.inputs.settings
        if file.is_idle:
            self._extent = TraceExtent.of_results(file.results, positions, settings, file.degraded)
            self._unused_lines = frozenset()
        else:
            lines = enumerate(positions.lines)
            last = frozenset(at for at, line in lines if line in self._unused_lines)
            self._extent = replace(self._extent, lines=last)
        unused = tuple(unused_ignores(found, positions, self._extent))
        self._unused_lines |= {positions.line(finding.range.start.line) for finding in unused}
        return merge_findings(unused, settings)

    @property
    def faded(self) -> set[str]:
        """Names of the targets whose lines that no trace reached are faded."""
        if not self._file.inputs.settings.untraced_faded:
            return self.untraced_shown
        return self.untraced_shown ^ {shown.report.name for shown in self.reports()}

    def reports(self) -> tuple[ShownReport, ...]:
        """Return the reports of all targets in the order of the text."""
        return self._file.results.reports()

    def find_forecast(self, target: str) -> TargetForecast | None:
        """Return the forecast of recompiles for a target; None if unknown."""
        if not self._file.inputs.settings.forecast:
            return None
        return self._file.results.forecasts.find(target)

    def seen_values(self) -> Seen:
        """Return the kinds of values that the last runs saw in expressions and locals, by offsets
        in the current text.
        """
        positions, targets = self._file.document.positions, self._file.results.seen
        known = self._seen
        if known is None or known.positions is not positions or known.targets != targets:
            seen = seen_in(positions, targets.values())
            known = self._seen = _SeenNow(positions, targets, seen)
        return known.seen

    def seen_shapes(self) -> tuple[PlaceShapes, ...]:
        """Return the shapes of values that the last runs saw, in the order of the text."""
        targets, known = self._file.results.shapes, self._shapes
        if known is None or known.targets != targets:
            known = self._shapes = _ShapesNow(targets, all_shapes(targets.values()))
        return known.places

    def shape_counts(self, place: PlaceShapes) -> dict[str, int]:
        """Return how many values the runs of each target saw at a place, by target name. Of several
        runs of a target, the largest number counts."""
        key = place.range, place.role
        counts: dict[str, int] = {}
        for target, shapes in self._file.results.shapes.items():
            found = max((run.count_at(key) for run in shapes.runs), default=0)
            if found:
                counts[target] = found
        return counts

    @property
    def shapes_note(self) -> str:
        """Sentence for the user about shapes that the last runs did not report, for example because
        of a limit; empty if complete."""
        found = self._file.results.shapes.values()
        return next((shapes.note for shapes in found if shapes.note), "")

    def values_left_out(self, target: str) -> str:
        """Return a sentence for the user about values that the last run of a target did not report
        because of a limit; empty if complete.
        """
        found = self._file.results.target_details(target).shapes
        return found.current.note if found is not None else ""


CODE = "trace/untraced"


def untraced_findings(
    targets: Iterable[str], reports: Iterable[TargetReport], text: TextPositions
) -> Iterator[FileFinding]:
    """Yield a finding for each block of lines that no trace of a target reached."""
    by_target: dict[str, set[int]] = {}
    for report in reports:
        if report.lines is not None:
            lines = set(report.untraced)
            by_target[report.name] = by_target.get(report.name, lines) & lines
    for target in targets:
        for first, last in _line_blocks(sorted(by_target.get(target, ()))):
            indented = text.line(first)
            start = len(indented) - len(indented.lstrip())
            finding = Finding(
                code=CODE,
                message=f"Not traced by any run of `{target}`",
                range=Range(Position(first, start), text.line_end(last)),
                target=target,
                unnecessary=True,
            )
            yield FileFinding(finding, Severity.HINT, (target,), documentation_url(CODE))


def _line_blocks(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each block of consecutive lines."""
    first = last = None
    for line in lines:
        if first is None or last is None or line > last + 1:
            if first is not None and last is not None:
                yield first, last
            first = line
        last = line
    if first is not None and last is not None:
        yield first, last
