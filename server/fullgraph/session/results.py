"""What is known of one text: findings of the last run, and of the run that goes on."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, get_args

from fullgraph.domain.reports import ShownReport
from fullgraph.incremental.affected import Inputs, KnownTarget
from fullgraph.incremental.moves import LineLost, Moves
from fullgraph.incremental.relocation import Relocation
from fullgraph.kept import SETTLED
from fullgraph.session.edit_tracking import Edit, move_finding, move_report
from fullgraph.session.forecasts import Forecasts
from fullgraph.session.guards import GuardsByTarget
from fullgraph.session.per_target import TOLD, Told
from fullgraph.session.seen import SeenByTarget
from fullgraph.session.shapes import ShapesByTarget
from fullgraph_engine.protocol import (
    Analyzed,
    Event,
    Finding,
    FindingFound,
    ForecastFound,
    GivenCalls,
    OperatorsRegistered,
    ProbeOrigin,
    Restarted,
    RunId,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.operators import Operator

_FILE = ""
"""The key of findings that belong to no target; they are complete only when the run is."""

_LATER = ("second", "paths")
"""Runs that are only of what the first ones leave open."""

_ORIGINS: dict[ProbeOrigin, Inputs] = {
    "comment": "written",
    "annotation": "written",
    "synthesis": "found",
    "convention": "convention",
    "program": "program",
}
_INPUTS: tuple[Inputs, ...] = get_args(Inputs)

SYNTAX_ERROR = "trace/syntax-error"

_WORD = re.compile(r"[^\W\d]\w*")

_T = TypeVar("_T")


@dataclass
class _Part:
    """What one run said of one target. A target has a report for each probe."""

    findings: list[Finding] = field(default_factory=list)
    reports: list[TargetReport] = field(default_factory=list)
    told: Told = field(default_factory=Told)

    def copy(self) -> _Part:
        return _Part(list(self.findings), list(self.reports), self.told)

    @property
    def is_settled(self) -> bool:
        """Each run has ended by itself, so that another one would end the same."""
        return bool(self.reports) and all(report.status in SETTLED for report in self.reports)

    def anywhere(self) -> _Part:
        """Without where the target is called from."""
        reports = [
            replace(report, probe=replace(report.probe, source="")) if report.probe else report
            for report in self.reports
        ]
        return _Part(self.findings, reports, self.told)

    def edited(self, edit: Edit, path: str) -> _Part:
        """After an edit of the file ``path``."""
        findings = (move_finding(finding, edit, path) for finding in self.findings)
        reports = (move_report(report, edit, path) for report in self.reports)
        return _Part(
            [finding for finding in findings if finding is not None],
            [report for report in reports if report is not None],
            self.told.moved(edit),
        )

    def relocated(self, move: Relocation) -> _Part:
        """In another text.

        Raises:
            LineLost: some of it has no place there.
        """
        findings = [move.of(finding) for finding in self.findings]
        reports = [move.of(report) for report in self.reports]
        return _Part(findings, reports, self.told.relocated(move))


class Results:
    """Findings and reports by target.

    While a run goes on, a target shows what the run has found so far together with what was known
    before; once the run has reported the target, only the new. So findings neither vanish while
    they are computed again, nor stay when they are gone.
    """

    def __init__(self) -> None:
        self._old: dict[str, _Part] = {}
        self._new: dict[str, _Part] = {}
        self._only: frozenset[str] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._current = False
        self._note = ""
        self.names: tuple[str, ...] = ()
        """Of the targets, in the order of the text."""
        self._found: tuple[TargetInfo, ...] = ()
        """By the run that goes on, or was the last."""
        self._operators: tuple[Operator, ...] = ()
        self._registers = False
        self.forecasts = Forecasts()

    # -- the run ------------------------------------------------------------------------------

    def begin(self, only: Iterable[str] = (), kept: Iterable[str] = ()) -> None:
        """A run of the text as it is now starts. With ``only``, other targets stay as they are;
        those that are ``kept`` do so as well, and are known to be as current as the rest."""
        self._settle()
        self._only, self._kept = frozenset(only), frozenset(kept)
        self.forecasts.outdate(self._stays)
        self._current = True
        self._found = ()
        self._registers = False

    def apply(self, event: Event) -> bool:
        """Take in an event of the run; says whether that changed what is shown."""
        if isinstance(event, FindingFound):
            self._part(event.finding.target).findings.append(event.finding)
            return True
        if isinstance(event, TargetDone):
            part = self._part(event.report.name)
            # Of the same probe there is another one when its further paths were traced.
            number = event.report.probe_number
            others = [one for one in part.reports if one.probe_number != number]
            part.reports = [*others, event.report]
            return True
        if isinstance(event, TOLD):
            part = self._part(event.target)
            part.told = part.told.joined(Told.of(event))
            return False
        if isinstance(event, ForecastFound):
            self.forecasts.take(event)
            return True
        if isinstance(event, TargetsFound):
            self._note, self._found = event.note, event.targets
            if self._only:
                return False
            self.names = tuple(target.name for target in event.targets)
            names = set(self.names)
            gone = [name for name in self._old if name != _FILE and name not in names]
            for name in gone:
                del self._old[name]
            self.forecasts.keep(names)
            return bool(gone or self.untold)
        if isinstance(event, Restarted):
            self._new = {}
            self.begin(self._only, self._kept)
            return True
        if isinstance(event, OperatorsRegistered):
            self._operators, self._registers = event.operators, True
        return False

    def complete(self) -> None:
        """The run ended by itself: what it did not say again is gone."""
        kept = {name: part for name, part in self._old.items() if self._stays(name)}
        for name, part in self._new.items():
            if not part.is_settled and name in self._old:
                part.told = part.told.over(self._old[name].told)
        if not self._only:
            self.forecasts.keep((*kept, *self._new))
        self._old = {}
        self._new = {**kept, **self._new}
        if not self._registers:
            self._operators = ()

    def interrupted(self) -> None:
        """The run ended before it was through: keep what it found, and the rest of before."""
        if self.unparsed:
            # Nothing is known to be gone but what was said of the file.
            self._old.pop(_FILE, None)
        self._settle()
        self._current = False

    @property
    def unparsed(self) -> bool:
        """The run that goes on has found that the text does not parse, so it traces nothing."""
        file = self._new.get(_FILE, _Part())
        return any(finding.code == SYNTAX_ERROR for finding in file.findings)

    def _stays(self, name: str) -> bool:
        """Whether the run leaves a target, or what was said of the file, as it is."""
        return name in self._kept or bool(self._only and name not in self._only)

    def _part(self, name: str) -> _Part:
        return self._new.setdefault(name, _Part())

    def _settle(self) -> None:
        """Make what is shown now the old."""
        names = dict.fromkeys((*self._new, *self._old))
        self._old = {name: self._shown(name) for name in names}
        self._new = {}

    # -- the text -----------------------------------------------------------------------------

    def edited(self, edits: Sequence[Edit], path: str) -> None:
        """Move with the text. From here on nothing is current."""
        if not edits:
            return
        self._settle()
        self._current = False
        self._found = ()
        self.forecasts.edited(edits, path)
        for edit in edits:
            self._old = {name: part.edited(edit, path) for name, part in self._old.items()}

    def relocated(
        self,
        moves: Moves,
        path: str,
        lines: Sequence[str],
        called: frozenset[str] = frozenset(),
    ) -> Results:
        """Those of a text of these lines; a target of which something cannot be placed is left out.
        It is no matter where those that are ``called`` are called from."""
        copy, move = self.snapshot(), Relocation(path, moves, lines)
        lost = set[str]()
        for parts in (copy._old, copy._new):
            for name, part in parts.items():
                try:
                    parts[name] = (part.anywhere() if name in called else part).relocated(move)
                except LineLost:
                    lost.add(name)
        for name in lost:
            copy._old.pop(name, None)
            copy._new.pop(name, None)
        with contextlib.suppress(LineLost):
            copy._found = move.of(self._found)
        copy.forecasts.relocated(move)
        return copy

    def adopt(self, other: Results, names: frozenset[str]) -> None:
        """Take what another one has of some targets."""
        self._settle()
        self.names = self.names or other.names
        for name in names:
            self._old[name] = other._shown(name)
        self.forecasts.adopt(other.forecasts, names)

    def take_again(self, other: Results, name: str, sources: Sequence[str]) -> None:
        """Take what another one has of a target, which is called as it was then, from there."""
        part = other._shown(name)
        reports = [
            replace(report, probe=replace(report.probe, source=sources[report.probe_number]))
            for report in part.reports
            if report.probe is not None
        ]
        self._new[name] = _Part(part.findings, reports, part.told)
        self.forecasts.adopt(other.forecasts, frozenset([name]))

    def events(self, generation: str) -> tuple[Event, ...]:
        """What would make these results of an empty one, what values were and the like aside."""
        reports = [shown.report for shown in self.reports()]
        infos = {one.name: TargetInfo(one.name, one.kind, one.range) for one in reversed(reports)}
        names = (name for name in self.names if name in infos)
        return (
            TargetsFound(0, tuple(infos[name] for name in names), self._note),
            *(FindingFound(0, finding) for finding in self.findings(foretold=False)),
            *(TargetDone(0, report) for report in reports),
            Analyzed(0, generation, 0.0),
        )

    @property
    def targets(self) -> tuple[KnownTarget, ...]:
        """Those of which each run has ended by itself, so that another one would end the same."""
        found = []
        for name in self.names:
            part = self._shown(name)
            if part.is_settled:
                reports = part.reports
                inputs = max((_inputs(report) for report in reports), key=_INPUTS.index)
                lines, calls = frozenset(_lines(part)), _calls(name, reports)
                given = [one.definitions for one in calls.calls] if calls is not None else []
                named = itertools.chain(*given, *map(_named, reports))
                definitions = tuple(dict.fromkeys(named))
                found.append(KnownTarget(name, inputs, lines, definitions, calls))
        return tuple(found)

    @property
    def placed(self) -> frozenset[str]:
        """Targets of which anything is told, and the empty name for the file."""
        return frozenset((*self._old, *self._new))

    def snapshot(self) -> Results:
        """A copy that later edits leave as it is."""
        copy = Results()
        copy._old = {name: part.copy() for name, part in self._old.items()}
        copy._new = {name: part.copy() for name, part in self._new.items()}
        copy._only, copy._current, copy._note = self._only, self._current, self._note
        copy._kept = self._kept
        copy.names, copy._operators = self.names, self._operators
        copy.forecasts = self.forecasts.copy()
        return copy

    # -- what is shown ------------------------------------------------------------------------

    @property
    def note(self) -> str:
        """What the engine said about the targets as a whole, such as a cap."""
        return self._note

    @property
    def operators(self) -> tuple[Operator, ...]:
        """What the text and its imports registered when they were last executed."""
        return self._operators

    @property
    def empty(self) -> bool:
        return not self._old and not self._new

    def findings(self, *, foretold: bool = True) -> tuple[Finding, ...]:
        """All of them; those of forecasts only if they are wanted."""
        names = dict.fromkeys((*self._new, *self._old))
        found = [finding for name in names for finding in self._shown(name).findings]
        if foretold:
            made = (self.forecasts.by_target.get(name) for name in names)
            found += (finding for forecast in made if forecast for finding in forecast.findings)
        return tuple(found)

    def reports(self) -> tuple[ShownReport, ...]:
        """In the order of the text."""
        shown = []
        for name in dict.fromkeys((*self._new, *self._old)):
            part = self._new.get(name)
            # With ``only``, targets of before are as current as the text.
            done = part.reports if part is not None else []
            shown += [
                ShownReport(report, self._current and (report in done or name in self._kept))
                for report in self._shown(name).reports
            ]
        return tuple(sorted(shown, key=_place))

    @property
    def ran_program(self) -> bool:
        """Whether a program's run produced these results."""
        return any(shown.report.compiled is not None for shown in self.reports())

    @property
    def untold(self) -> tuple[TargetInfo, ...]:
        """Targets of the text of which no run has reported anything, while one goes on."""
        told = {shown.report.name for shown in self.reports()}
        return tuple(target for target in self._found if target.name not in told)

    @property
    def guards(self) -> Mapping[str, GuardsByTarget]:
        """What the compiled code of each target depends on."""
        return self._each(lambda told: told.guards)

    def unforetold(self) -> tuple[str, ...]:
        """Targets that were traced, and have no forecast since."""
        traced = (s.report.name for s in self.reports() if s.report.status == "traced")
        return tuple(name for name in dict.fromkeys(traced) if name not in self.forecasts.fresh)

    @property
    def seen(self) -> Mapping[str, SeenByTarget]:
        """What was seen of expressions and locals, by target."""
        return self._each(lambda told: told.seen)

    @property
    def shapes(self) -> Mapping[str, ShapesByTarget]:
        """What values were, by target."""
        return self._each(lambda told: told.shapes)

    def _each(self, kind: Callable[[Told], _T | None]) -> dict[str, _T]:
        names = dict.fromkeys((*self._new, *self._old))
        found = ((name, kind(self.told(name))) for name in names)
        return {name: one for name, one in found if one is not None}

    def told(self, name: str) -> Told:
        """What values of one target were and the like."""
        old, new = self._old.get(name), self._new.get(name)
        if new is None or old is None:
            part = new or old
            return part.told if part is not None else Told()
        if new.is_settled and _is_through(name, old, new):
            return new.told
        # Of a target whose run ended too early to tell, what was seen before still helps.
        return new.told.over(old.told)

    def _shown(self, name: str) -> _Part:
        old, new = self._old.get(name), self._new.get(name)
        if new is None or old is None:
            return (new or old or _Part()).copy()
        seen = {_same(finding) for finding in new.findings}
        told = self.told(name)
        if _is_through(name, old, new):
            # Its further parts come when all targets are through.
            later = [f for f in old.findings if _is_later(f.run) and _same(f) not in seen]
            return _Part([*new.findings, *later], list(new.reports), told)
        done = {report.probe_number for report in new.reports}
        return _Part(
            [*new.findings, *(item for item in old.findings if _same(item) not in seen)],
            [*new.reports, *(item for item in old.reports if item.probe_number not in done)],
            told,
        )


def _is_through(name: str, old: _Part, new: _Part) -> bool:
    """Whether the run that goes on has told all of a target but its further parts.

    With several probes, it has when as many have reported as did before.
    """
    return name != _FILE and len(new.reports) >= max(1, len(old.reports))


def _lines(part: _Part) -> Iterator[int]:
    """Those that the runs of a target have told something of."""
    for finding in part.findings:
        yield finding.range.start.line
        yield from (frame.line for frame in finding.stack)
    if part.told.seen is not None:
        yield from part.told.seen.short
    if part.told.shapes is not None:
        yield from (range_.start.line for range_, _ in part.told.shapes.places)


def _inputs(report: TargetReport) -> Inputs:
    if report.uncalled:
        return "uncalled"
    probe = report.probe
    if probe is None or (probe.origin == "comment" and report.status == "failed"):
        return "sought"
    return _ORIGINS.get(probe.origin, "given")


def _named(report: TargetReport) -> list[str]:
    """The names in inputs that were found, and others that are none of the text."""
    probe = report.probe
    found = probe is not None and probe.origin == "synthesis"
    return _WORD.findall(f"{probe.init} {probe.inputs}") if probe is not None and found else []


def _calls(name: str, reports: Iterable[TargetReport]) -> GivenCalls | None:
    """What others call a target with; None where that is not known of each probe."""
    by_number = {report.probe_number: report.called for report in reports}
    calls = tuple(call for _, call in sorted(by_number.items()) if call is not None)
    complete = len(calls) == len(by_number) and by_number.keys() == set(range(len(calls)))
    given = GivenCalls(name, calls)
    alike = all(call.real == given.real for call in calls)
    return given if complete and calls and alike else None


def _place(shown: ShownReport) -> tuple[int, int, int]:
    start = shown.report.range.start
    return start.line, start.byte, shown.report.probe_number


def _is_later(run: RunId | None) -> bool:
    return run is not None and run.part in _LATER


def _same(finding: Finding) -> object:
    """What two runs of almost the same text have in common of a finding."""
    return finding.code, finding.range.start, finding.identity or finding.message
