"""Results of one file: findings and reports of targets, from the last run and from the current
run.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, get_args

from fullgraph.domain.reports import ShownReport
from fullgraph.incremental.affected import Inputs, KnownTarget
from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.relocation import Relocation
from fullgraph.incremental.text_maps import AppliedEdit, CodeMap
from fullgraph.results.details import DETAIL_EVENTS, TargetDetails
from fullgraph.results.forecasts import Forecasts
from fullgraph.results.guards import GuardsByTarget
from fullgraph.results.located import Located
from fullgraph.results.seen import SeenByTarget
from fullgraph.results.shapes import ShapesByTarget
from fullgraph_engine.protocol import (
    CalledAgain,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    GivenCalls,
    OperatorsRegistered,
    ProbeOrigin,
    Restarted,
    RunId,
    RunLost,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    Timings,
)
from fullgraph_engine.protocol.operators import Operator

_FILE = ""
"""Key of the findings about the whole file; the other keys are names of targets.

Findings about the whole file are complete only when the run has ended.
"""

_LATER = ("second", "paths", "backend")
"""Phases of a trace that start after every target was traced once: the search for specialized
dimensions and for alternative execution paths, and the compilation of graphs.
"""

_ORIGINS: dict[ProbeOrigin, Inputs] = {
    "comment": "written",
    "annotation": "written",
    "synthesis": "found",
    "convention": "convention",
    "program": "program",
}
_INPUTS: tuple[Inputs, ...] = get_args(Inputs)

SYNTAX_ERROR = "trace/syntax-error"

_SETTLED: tuple[Status, ...] = ("traced", "no-probe", "failed")

STORED = (
    *(TargetsFound, FindingFound, TargetDone, RunLost, ForecastFound, OperatorsRegistered),
    *DETAIL_EVENTS,
)
"""Types of the engine's events to store on disk; results are read back from them."""


def _is_settled(report: TargetReport) -> bool:
    """Whether tracing the target again would give the same status, so that this is not necessary.

    This is false, for example, if the target reached the time limit while the machine was busy.
    """
    return report.status in _SETTLED or (report.status == "timeout" and report.repeats)


def _is_over_limit(report: TargetReport) -> bool:
    """Whether the target, or its file, reached a time limit."""
    return report.status in ("timeout", "skipped")


_WORD = re.compile(r"[^\W\d]\w*")

_T = TypeVar("_T")


@dataclass(frozen=True)
class _TargetPart:
    """The findings, reports and details of one target (traced function or class).

    There is one report for each run: a trace with one set of example inputs (probe).
    """

    found: Located[tuple[Finding, ...]] = field(default_factory=lambda: Located.wrap(()))
    located_reports: Located[tuple[TargetReport, ...]] = field(
        default_factory=lambda: Located.wrap(())
    )
    details: TargetDetails = field(default_factory=TargetDetails)
    lost: frozenset[RunId] = frozenset()
    """Runs that did not end, so that findings may be missing."""

    @classmethod
    def from_current(
        cls,
        findings: Iterable[Finding],
        reports: Iterable[TargetReport],
        details: TargetDetails,
        lost: frozenset[RunId],
    ) -> _TargetPart:
        """Return results with source ranges in the current text."""
        return cls(Located.wrap(tuple(findings)), Located.wrap(tuple(reports)), details, lost)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.found.current

    @property
    def reports(self) -> tuple[TargetReport, ...]:
        return self.located_reports.current

    @property
    def is_settled(self) -> bool:
        """Whether tracing the target again would give the same status."""
        return bool(self.reports) and all(map(_is_settled, self.reports))

    def add_finding(self, finding: Finding) -> _TargetPart:
        return replace(self, found=Located.wrap((*self.findings, finding)))

    def add_report(self, report: TargetReport) -> _TargetPart:
        """Return the results with a report; it replaces an earlier one of the same run, because
        alternative execution paths are reported later.
        """
        number = report.probe_number
        others = (one for one in self.reports if one.probe_number != number)
        return replace(self, located_reports=Located.wrap((*others, report)))

    def with_callers(self, sources: Sequence[str]) -> _TargetPart:
        """Return a copy whose reports name other callers as the source of their example inputs.

        ``sources[n]`` describes the callers for the example inputs with the number ``n``. If it is
        empty, the descriptions are removed.
        """
        reports = [
            report
            if report.probe is None
            else replace(
                report,
                probe=replace(report.probe, source=sources[report.probe_number] if sources else ""),
            )
            for report in self.reports
        ]
        return replace(self, located_reports=Located.wrap(tuple(reports)))

    def relocate_later(self, relocations: Sequence[Relocation]) -> _TargetPart:
        """Return the results with source ranges in an edited text; results whose range was edited
        are dropped.

        The ranges are moved when the results are read.
        """
        return _TargetPart(
            self.found.relocate_later(relocations),
            self.located_reports.relocate_later(relocations),
            self.details.relocate_later(relocations),
            self.lost,
        )

    def relocate_now(self, relocation: Relocation, *, guards: bool) -> _TargetPart:
        """Return the results with source ranges in another text, moved immediately.

        Without ``guards``, the ranges of guards are not checked.

        Raises:
            LineLost: A range does not exist in the other text.
        """
        return _TargetPart(
            self.found.relocate_now(relocation),
            self.located_reports.relocate_now(relocation),
            self.details.relocate_now(relocation, guards=guards),
            self.lost,
        )


class Results:
    """The findings, reports and details of all targets of one file.

    During a run, the findings of the last and of the current run are shown together until the
    target's report arrives, then only the current ones. Findings therefore neither flicker nor
    outlive their cause.
    """

    def __init__(self) -> None:
        self._old: dict[str, _TargetPart] = {}
        self._new: dict[str, _TargetPart] = {}
        self._only: frozenset[str] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._current = False
        self._complete = False
        """True if the last run of all targets completed, and neither an edit nor a run followed."""
        self._was_complete = False
        """Value of ``_complete`` when the current run began."""
        self.note = ""
        """Note of the engine about the whole run, for example that it reached a limit on the number
        of targets.
        """
        self.names: tuple[str, ...] = ()
        """Names of the targets, in the order of the text."""
        self._found: tuple[TargetInfo, ...] = ()
        """Targets that the current run found in the text. Before it has listed them, the targets of
        the last run.
        """
        self.operators: tuple[Operator, ...] = ()
        """Operators that the text and its imports registered when last executed."""
        self._registers = False
        self.forecasts = Forecasts()
        self.failure: Failed | None = None
        """Reason why the file could not be traced; None if it was traced."""
        self.timings: list[Timings] = []
        """Durations that the current run, or else the last one, has reported."""
        self._called: Results | None = None
        """Earlier results of targets whose inputs come from calls in other code. They are reused if
        the engine finds the same calls again.
        """

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Results:
        """Return the results of a complete run with these events."""
        results = cls()
        results.begin_run()
        for event in events:
            results.apply_event(event)
        results.complete_run()
        return results

    # -- events of the run --------------------------------------------------------------------

    def begin_run(
        self,
        only: Iterable[str] = (),
        kept: Iterable[str] = (),
        called: Results | None = None,
    ) -> None:
        """Begin a run of the current text, whose events ``apply_event`` will receive.

        With ``only``, the run traces these targets, and results of other targets stay unchanged.
        Results of targets in ``kept`` also stay, because they are valid for the current text.
        ``called`` are earlier results of targets whose inputs come from calls in other code; they
        are used if the engine finds the same calls.
        """
        self._merge_new_into_old()
        self._was_complete, self._complete = self._complete, False
        self._only, self._kept, self._called = frozenset(only), frozenset(kept), called
        self.forecasts.mark_outdated(self._is_left_alone)
        self._current = True
        self._found = ()
        self._registers = False
        self.failure = None
        self.timings = []

    def apply_event(self, event: Event) -> bool:
        """Apply an event of the current run; return whether the displayed results changed."""
        if isinstance(event, FindingFound):
            name = event.finding.target
            self._new[name] = self._new.get(name, _TargetPart()).add_finding(event.finding)
            return True
        if isinstance(event, TargetDone):
            name = event.report.name
            self._new[name] = self._new.get(name, _TargetPart()).add_report(event.report)
            return True
        if isinstance(event, RunLost):
            name = event.run.target
            part = self._new.get(name, _TargetPart())
            self._new[name] = replace(part, lost=part.lost | {event.run})
            return False
        if isinstance(event, DETAIL_EVENTS):
            part = self._new.get(event.target, _TargetPart())
            details = part.details.merge_with(TargetDetails.from_event(event))
            self._new[event.target] = replace(part, details=details)
            return False
        if isinstance(event, ForecastFound):
            self.forecasts.add_forecast(event)
            return True
        if isinstance(event, TargetsFound):
            self.note, self._found = event.note, event.targets
            if self._only:
                return False
            self.names = tuple(target.name for target in event.targets)
            names = set(self.names)
            gone = [name for name in self._old if name != _FILE and name not in names]
            for name in gone:
                del self._old[name]
            self.forecasts.keep_targets(names)
            return bool(gone or self.unreported)
        if isinstance(event, CalledAgain) and self._called is not None:
            # The inputs come from the same calls, whose lines may have moved.
            called = self._called._shown_part(event.target)
            self._new[event.target] = called.with_callers(event.sources)
            self.forecasts.adopt_targets(self._called.forecasts, frozenset([event.target]))
            return True
        if isinstance(event, Timings):
            self.timings.append(event)
            return False
        if isinstance(event, Failed):
            self.failure = event
            return False
        if isinstance(event, Restarted):
            self._new = {}
            self.begin_run(self._only, self._kept, self._called)
            return True
        if isinstance(event, OperatorsRegistered):
            self.operators, self._registers = event.operators, True
        return False

    def complete_run(self) -> None:
        """Complete the run: drop findings of the previous run that this run did not report
        again.
        """
        kept = {name: part for name, part in self._old.items() if self._is_left_alone(name)}
        for name, part in self._new.items():
            if not part.is_settled and name in self._old:
                details = part.details.fill_from(self._old[name].details)
                self._new[name] = replace(part, details=details)
        if not self._only:
            self.forecasts.keep_targets((*kept, *self._new))
        self._old = {}
        self._new = {**kept, **self._new}
        self._complete = self._was_complete or not self._only
        if not self._registers:
            self.operators = ()

    def interrupt_run(self) -> None:
        """Interrupt the run: keep its results so far, and the previous run's results of targets
        that it did not reach.
        """
        if self.unparsed:
            # A syntax error invalidates only findings about the whole file, because no target was
            # traced.
            self._old.pop(_FILE, None)
        self._merge_new_into_old()
        self._current = False

    @property
    def unparsed(self) -> bool:
        """Whether the current run found a syntax error, so that it cannot trace any target."""
        file = self._new.get(_FILE, _TargetPart())
        return any(finding.code == SYNTAX_ERROR for finding in file.findings)

    def _is_left_alone(self, name: str) -> bool:
        """Return whether the current run does not trace the target ``name``, so that its results
        stay.

        For an empty name, return whether the run does not report findings about the whole file.
        """
        return name in self._kept or bool(self._only and name not in self._only)

    def _merge_new_into_old(self) -> None:
        """Merge the results of the current run into the results of the last one."""
        names = dict.fromkeys((*self._new, *self._old))
        self._old = {name: self._shown_part(name) for name in names}
        self._new = {}

    # -- changes of the text ------------------------------------------------------------------

    def apply_edits(self, edits: Sequence[AppliedEdit], path: str) -> None:
        """Move the ranges of the results by edits of the text at ``path``.

        Afterwards all results count as results of an earlier text, until a run reports them again.
        """
        if not edits:
            return
        self._merge_new_into_old()
        self._current = self._complete = False
        self._found = ()
        relocations = [Relocation(path, edit) for edit in edits]
        self.forecasts.follow(relocations)
        self._old = {name: part.relocate_later(relocations) for name, part in self._old.items()}

    def relocate_to(
        self, code_map: CodeMap, path: str, called: frozenset[str] = frozenset()
    ) -> Results:
        """Return the results with ranges in another text with the same code.

        Targets with a range that does not exist there are left out. ``code_map`` maps the ranges of
        the file at ``path``. Targets in ``called`` get their inputs from calls whose ranges may not
        exist there, so the ranges of these calls are removed first.
        """
        copy, move = self.snapshot(), Relocation(path, code_map, strict=True)
        lost = set[str]()
        for parts in (copy._old, copy._new):
            for name, part in parts.items():
                moved = part.with_callers(()) if name in called else part
                try:
                    parts[name] = moved.relocate_now(move, guards=code_map.is_formatted)
                except LineLost:
                    lost.add(name)
        for name in lost:
            copy._old.pop(name, None)
            copy._new.pop(name, None)
        with contextlib.suppress(LineLost):
            copy._found = move.relocate_value(self._found)
        copy.forecasts.relocate(move)
        return copy

    def adopt_targets(self, other: Results, names: frozenset[str]) -> None:
        """Copy the results of the targets in ``names`` from ``other``."""
        self._merge_new_into_old()
        self.names = self.names or other.names
        for name in names:
            self._old[name] = other._shown_part(name)
        self.forecasts.adopt_targets(other.forecasts, names)

    def list_events(self, *, forecasts: bool = False) -> tuple[Event, ...]:
        """Return the engine events that would produce these results again. ``forecasts`` includes
        forecasts of recompiles."""
        reports = [shown.report for shown in self.reports()]
        infos = {one.name: TargetInfo(one.name, one.kind, one.range) for one in reversed(reports)}
        names = (name for name in self.names if name in infos)
        parts = dict.fromkeys((*self._new, *self._old))
        details = (self.target_details(name).list_events(name) for name in parts)
        return (
            TargetsFound(0, tuple(infos[name] for name in names), self.note),
            OperatorsRegistered(0, self.operators),
            *(FindingFound(0, finding) for finding in self.findings(with_forecasts=False)),
            *(TargetDone(0, report) for report in reports),
            *(RunLost(0, run) for run in sorted(self.lost_runs)),
            *itertools.chain.from_iterable(details),
            *(self.forecasts.list_events() if forecasts else ()),
        )

    def without_earlier(self) -> Results:
        """Return a copy without results of earlier runs, unless they are valid for the current
        text.
        """
        copy = self.snapshot()
        copy._old = {name: part for name, part in self._old.items() if name in self._kept}
        return copy

    @property
    def is_complete(self) -> bool:
        """Whether the current text was traced completely: each target to its end, also on other
        execution paths.
        """
        reports = [shown.report for shown in self.reports()]
        return (
            self._complete
            and not (self.failure or self.note or self.unparsed)
            and set(self.names) <= {report.name for report in reports}
            and all(_is_complete(report) for report in reports)
        )

    @property
    def is_settled(self) -> bool:
        """Whether tracing each target again would give the same status."""
        return all(_is_settled(shown.report) for shown in self.reports())

    @property
    def targets(self) -> tuple[KnownTarget, ...]:
        """Targets whose results would be the same if they were traced again.

        Targets that reached a limit, such as on time, are left out.
        """
        found = []
        for name in self.names:
            part = self._shown_part(name)
            if part.is_settled:
                reports = part.reports
                inputs = max((_inputs_origin(report) for report in reports), key=_INPUTS.index)
                lines, calls = frozenset(_reported_lines(part)), _given_calls(name, reports)
                given = [one.definitions for one in calls.calls] if calls is not None else []
                named = itertools.chain(*given, *map(_mentioned_names, reports))
                definitions = tuple(dict.fromkeys(named))
                found.append(KnownTarget(name, inputs, lines, definitions, calls))
        return tuple(found)

    @property
    def placed(self) -> frozenset[str]:
        """Names of the targets with results; the empty name if there are findings about the whole
        file.
        """
        return frozenset((*self._old, *self._new))

    def snapshot(self) -> Results:
        """Return an independent copy: later edits and runs change only the original."""
        copy = Results()
        copy._old, copy._new = dict(self._old), dict(self._new)
        copy._only, copy._current, copy.note = self._only, self._current, self.note
        copy._complete = self._complete
        copy._kept = self._kept
        copy.names, copy.operators = self.names, self.operators
        copy.forecasts = self.forecasts.copy()
        return copy

    def without_unsettled(self, *, keep_over_limit: bool = False) -> Results:
        """Return a copy without targets that must be traced again, for example because a process
        crashed.

        ``keep_over_limit`` keeps targets that reached a time limit; another run with the same limit
        would probably reach it again.
        """

        def is_kept(report: TargetReport) -> bool:
            return _is_settled(report) or (keep_over_limit and _is_over_limit(report))

        copy = self.snapshot()
        for parts in (copy._old, copy._new):
            for name, part in list(parts.items()):
                if not all(map(is_kept, part.reports)):
                    del parts[name]
        return copy

    # -- displayed results --------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        return not self._old and not self._new

    def findings(self, *, with_forecasts: bool = True) -> tuple[Finding, ...]:
        """Return all findings; without ``with_forecasts``, leave out findings of recompile
        forecasts.
        """
        names = dict.fromkeys((*self._new, *self._old))
        found = [finding for name in names for finding in self._shown_part(name).findings]
        if with_forecasts:
            made = self.forecasts.list_events()
            found += (finding for event in made for finding in event.findings)
        return tuple(found)

    def reports(self) -> tuple[ShownReport, ...]:
        """Return the reports of all targets in the order of the text."""
        shown = []
        for name in dict.fromkeys((*self._new, *self._old)):
            part = self._new.get(name)
            # In a run of some targets only, results of all other targets are also current.
            done = part.reports if part is not None else ()
            shown += [
                ShownReport(report, self._current and (report in done or name in self._kept))
                for report in self._shown_part(name).reports
            ]
        return tuple(sorted(shown, key=_report_order))

    @property
    def lost_runs(self) -> frozenset[RunId]:
        """Runs that did not end, so that findings of the target may be missing."""
        parts = map(self._shown_part, dict.fromkeys((*self._new, *self._old)))
        return frozenset(run for part in parts for run in part.lost)

    @property
    def unreported(self) -> tuple[TargetInfo, ...]:
        """Targets for which neither the current run nor an earlier one has sent a report."""
        reported = {shown.report.name for shown in self.reports()}
        return tuple(target for target in self._found if target.name not in reported)

    @property
    def guards(self) -> Mapping[str, GuardsByTarget]:
        """Guards of the compiled code, by target."""
        return self._details_by_target(lambda details: details.guards)

    def targets_without_forecast(self) -> tuple[str, ...]:
        """Return the names of the traced targets for which no forecast of recompiles followed their
        last trace.
        """
        traced = (s.report.name for s in self.reports() if s.report.status == "traced")
        return tuple(name for name in dict.fromkeys(traced) if name not in self.forecasts.fresh)

    @property
    def seen(self) -> Mapping[str, SeenByTarget]:
        """Kinds of values that the runs saw in expressions and locals, by target."""
        return self._details_by_target(lambda details: details.seen)

    @property
    def shapes(self) -> Mapping[str, ShapesByTarget]:
        """Shapes of values that the runs saw, by target."""
        return self._details_by_target(lambda details: details.shapes)

    def _details_by_target(
        self, kind: Callable[[TargetDetails], Located[_T] | None]
    ) -> dict[str, _T]:
        names = dict.fromkeys((*self._new, *self._old))
        found = ((name, kind(self.target_details(name))) for name in names)
        return {name: one.current for name, one in found if one is not None}

    def target_details(self, name: str) -> TargetDetails:
        """Return the shapes, guards and other details that runs reported for the target
        ``name``.
        """
        old, new = self._old.get(name), self._new.get(name)
        if new is None or old is None:
            part = new or old
            return part.details if part is not None else TargetDetails()
        if new.is_settled and _is_through(name, old, new):
            return new.details
        # If the current run has not completed the target, details of the previous run are still
        # useful.
        return new.details.fill_from(old.details)

    def _shown_part(self, name: str) -> _TargetPart:
        old, new = self._old.get(name), self._new.get(name)
        if new is None or old is None:
            return new or old or _TargetPart()
        seen = {_finding_identity(finding) for finding in new.findings}
        details = self.target_details(name)
        if _is_through(name, old, new):
            # Findings of later phases of a run arrive after every target has been traced once.
            later = [
                f for f in old.findings if _is_later(f.run) and _finding_identity(f) not in seen
            ]
            return _TargetPart.from_current([*new.findings, *later], new.reports, details, new.lost)
        done = {report.probe_number for report in new.reports}
        return _TargetPart.from_current(
            [
                *new.findings,
                *(item for item in old.findings if _finding_identity(item) not in seen),
            ],
            [*new.reports, *(item for item in old.reports if item.probe_number not in done)],
            details,
            new.lost | old.lost,
        )


async def collect_results(
    events: AsyncIterable[Event], watch: Callable[[Event], None] = lambda event: None
) -> Results:
    """Collect the events of one engine request, and return its results after the last event.

    ``watch`` is called with each event.
    """
    results = Results()
    results.begin_run()
    async for event in events:
        results.apply_event(event)
        watch(event)
    results.complete_run()
    return results


def _is_through(name: str, old: _TargetPart, new: _TargetPart) -> bool:
    """Return whether the current run has reported a target as completely as the last run.

    ``new`` are the results of the current run, ``old`` of the last run. Both have one report for
    each set of example inputs of the target.
    """
    return name != _FILE and len(new.reports) >= max(1, len(old.reports))


def _is_complete(report: TargetReport) -> bool:
    return report.status == "traced" and all(path.status == "traced" for path in report.paths)


def _reported_lines(part: _TargetPart) -> Iterator[int]:
    """Yield the lines that findings, values or shapes of a target refer to."""
    for finding in part.findings:
        yield finding.range.start.line
        yield from (frame.line for frame in finding.stack)
    details = part.details
    if details.seen is not None:
        values = details.seen.current.values
        yield from (value.range.start.line for value in values if not value.name)
    if details.shapes is not None:
        runs = details.shapes.current.runs
        yield from (place.range.start.line for run in runs for place in run.places)


def _inputs_origin(report: TargetReport) -> Inputs:
    if report.uncalled:
        return "uncalled"
    probe = report.probe
    if probe is None or (probe.origin == "comment" and report.status == "failed"):
        return "sought"
    return _ORIGINS.get(probe.origin, "given")


def _mentioned_names(report: TargetReport) -> list[str]:
    """Return the words in the inputs that the engine synthesized for a target; some may be names in
    the file.
    """
    probe = report.probe
    found = probe is not None and probe.origin == "synthesis"
    return _WORD.findall(f"{probe.init} {probe.inputs}") if probe is not None and found else []


def _given_calls(name: str, reports: Iterable[TargetReport]) -> GivenCalls | None:
    """Return the calls in other code that provide a target's inputs; None if they are unknown for
    any of its reports.
    """
    by_number = {report.probe_number: report.called for report in reports}
    calls = tuple(call for _, call in sorted(by_number.items()) if call is not None)
    complete = len(calls) == len(by_number) and by_number.keys() == set(range(len(calls)))
    given = GivenCalls(name, calls)
    alike = all(call.real == given.real for call in calls)
    return given if complete and calls and alike else None


def _report_order(shown: ShownReport) -> tuple[int, int, int]:
    start = shown.report.range.start
    return start.line, start.byte, shown.report.probe_number


def _is_later(run: RunId | None) -> bool:
    return run is not None and run.part in _LATER


def _finding_identity(finding: Finding) -> object:
    """Return a key by which a finding is recognized in the next run after small edits of the
    text.
    """
    return finding.code, finding.range.start, finding.identity or finding.message
