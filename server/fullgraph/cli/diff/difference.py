"""Compare the reports of two checks of the same files, the old and the new side.

If one side could not compute a result, the difference is unknown, with a reason. An unknown
difference counts neither as new nor as removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fullgraph.cli.check_report import CheckReport, ReportedFile, ReportedFinding, ReportedTarget
from fullgraph.cli.matching import SAME, Key, Trait, match_items
from fullgraph.cli.sources import absolute_path
from fullgraph.domain.codes import Severity

Side = Literal["old", "new"]
SIDES: tuple[Side, ...] = ("old", "new")
Kind = Literal["new", "gone", "changed", "unknown"]
"""Kind of a difference; ``unknown`` means that one side could not compute the result."""
KINDS: tuple[Kind, ...] = ("new", "gone", "changed", "unknown")

Count = Literal["graphs", "ops", "breaks", "skips", "recompiles"]
COUNTS: tuple[Count, ...] = ("graphs", "ops", "breaks", "skips", "recompiles")


@dataclass(frozen=True)
class ComparedCheck:
    """The name, versions and problems of one of the two compared checks.

    ``problems`` are sentences about what could not be checked.
    """

    name: str
    torch: str
    python: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Uncomputed:
    """The reason why one side of the comparison could not compute a result.

    ``reason`` is a clause, for example ``failed: ValueError: …``.
    """

    side: Side
    reason: str


@dataclass(frozen=True)
class FindingDifference:
    """A finding that differs between the sides, or that only one side could compute.

    ``old`` is None for a new finding, ``new`` for a finding that only the old side has.
    ``uncomputed`` is set if one side could not compute its result, so that the difference is
    unknown; ``old`` or ``new`` is then None.
    """

    kind: Kind
    old: ReportedFinding | None
    new: ReportedFinding | None
    uncomputed: Uncomputed | None = None

    @property
    def shown(self) -> ReportedFinding:
        """Finding to display: ``new`` if it exists, otherwise ``old``."""
        finding = self.new or self.old
        assert finding is not None
        return finding

    def reaches(self, threshold: Severity) -> bool:
        """Whether the new side has this finding at ``threshold`` or above, and the old side does
        not."""
        if self.new is None or not self.new.severity.reaches(threshold):
            return False
        return self.old is None or not self.old.severity.reaches(threshold)


@dataclass(frozen=True)
class RunDifference:
    """The results of tracing a target (a function or class) with one description of inputs.

    ``old`` or ``new`` is None if that side does not have the result.
    """

    old: ReportedTarget | None
    new: ReportedTarget | None
    uncomputed: Uncomputed | None = None
    """Reason why the result of one side is missing or incomplete; None if both are complete."""

    @property
    def kind(self) -> Kind:
        """Kind of the difference: unknown if one side lacks a result that it should have."""
        if self.uncomputed is not None:
            return "unknown"
        if self.old is None:
            return "new"
        return "gone" if self.new is None else "changed"

    @property
    def shown(self) -> ReportedTarget:
        """Result to display: ``new`` if it exists, otherwise ``old``."""
        run = self.new or self.old
        assert run is not None
        return run

    @property
    def traced(self) -> bool:
        """Whether the target was traced successfully, on both sides if both have a result."""
        return all(run.status == "traced" for run in (self.old, self.new) if run is not None)

    @property
    def uncompared(self) -> bool:
        """Whether only one side has a complete result, so that the results could not be
        compared."""
        if self.old is None or self.new is None or self.uncomputed is not None:
            return self.uncomputed is not None
        return not self.traced and "traced" in (self.old.status, self.new.status)

    @property
    def counts(self) -> tuple[tuple[Count, int | None, int | None], ...]:
        """Counts that differ, as tuples (name, old, new); empty unless both sides traced the
        target."""
        old, new = self.old, self.new
        if old is None or new is None or not self.traced:
            return ()
        both = ((name, getattr(old, name), getattr(new, name)) for name in COUNTS)
        return tuple((name, before, after) for name, before, after in both if before != after)

    @property
    def differs(self) -> bool:
        """Whether the results of both sides differ.

        A count that only one of the two torch versions can report is not a difference.
        """
        old, new = self.old, self.new
        if old is None or new is None:
            return True
        if not self.traced:
            return old.status != new.status
        numbers = any(None not in (before, now) for _, before, now in self.counts)
        return numbers or (old.mode, old.inputs) != (new.mode, new.inputs)

    @property
    def lost(self) -> bool:
        """Whether the old side traced the target and the new side could not."""
        if self.old is None or self.old.status != "traced":
            return False
        if self.new is None:
            return self.uncomputed is not None
        return self.new.status != "traced"


@dataclass(frozen=True)
class TargetDifference:
    """The differences of one target (a traced function or class).

    ``name`` is empty for findings that do not belong to a target.
    """

    name: str
    runs: tuple[RunDifference, ...]
    findings: tuple[FindingDifference, ...]


@dataclass(frozen=True)
class FileDifference:
    """The differences of one file.

    ``problems`` explain why a side could not check the file. ``missing`` is the side that does not
    have the file; None if both have it.
    """

    path: str
    targets: tuple[TargetDifference, ...]
    problems: tuple[Uncomputed, ...] = ()
    missing: Side | None = None


@dataclass(frozen=True)
class MissingCount:
    """A count, such as ``recompiles``, that the torch of one side cannot report.

    ``targets`` is the number of targets that lack the count.
    """

    side: Side
    count: Count
    targets: int


@dataclass(frozen=True)
class CheckDifference:
    """All differences between two checks.

    ``files`` are only files with differences. ``targets`` is the number of distinct targets of both
    sides; ``untraced`` is the number of targets that neither side could trace.
    """

    old: ComparedCheck
    new: ComparedCheck
    files: tuple[FileDifference, ...]
    targets: int
    untraced: int
    missing_counts: tuple[MissingCount, ...]

    @property
    def incomplete(self) -> bool:
        """Whether one of the checks, or one of their files, failed."""
        problems = self.old.problems or self.new.problems
        return bool(problems) or any(file.problems for file in self.files)

    def reaches(self, threshold: Severity) -> bool:
        """Whether there is a new finding at ``threshold`` or above, or a target that only the old
        side traced."""
        found = any(
            finding.reaches(threshold)
            for _, target in self.each_target()
            for finding in target.findings
        )
        return found or (self.lost > 0 and Severity.ERROR.reaches(threshold))

    def side_check(self, side: Side) -> ComparedCheck:
        return self.old if side == "old" else self.new

    def each_target(self) -> Iterator[tuple[FileDifference, TargetDifference]]:
        return ((file, target) for file in self.files for target in file.targets)

    def findings(self, kind: Kind) -> list[ReportedFinding]:
        differences = (finding for _, target in self.each_target() for finding in target.findings)
        return [finding.shown for finding in differences if finding.kind == kind]

    @property
    def differing(self) -> int:
        """Number of targets whose findings, outcomes or counts differ."""
        return sum(bool(target.name) for _, target in self.each_target())

    @property
    def uncompared(self) -> int:
        """Number of differing targets for which one side has an incomplete result."""
        return sum(
            any(run.uncompared for run in target.runs)
            or any(finding.kind == "unknown" for finding in target.findings)
            for _, target in self.each_target()
            if target.name
        )

    @property
    def lost(self) -> int:
        """Number of targets that the old side traced and the new side did not."""
        return sum(any(run.lost for run in target.runs) for _, target in self.each_target())


def compare_checks(old: CheckReport, new: CheckReport, names: tuple[str, str]) -> CheckDifference:
    """Compare the reports of two checks; ``names`` are the display names of the old and new side.

    Relative paths in both reports must belong to the same folder.
    """
    halves = _file_sides("old", old), _file_sides("new", new)
    # If a side could not check anything, this is reported once and not for each file.
    unable = any(report.problems and not report.files for report in (old, new))
    paths = [] if unable else sorted({**halves[0], **halves[1]})
    pairs = [
        _FilePair(
            halves[0].get(path) or _FileSide("old", None, old),
            halves[1].get(path) or _FileSide("new", None, new),
        )
        for path in paths
    ]
    missing: Counter[tuple[Side, Count]] = Counter()
    for pair in pairs:
        missing.update(pair.missing_counts())
    return CheckDifference(
        ComparedCheck(names[0], old.torch, old.python, old.problems),
        ComparedCheck(names[1], new.torch, new.python, new.problems),
        files=tuple(file for file in (pair.compare_files() for pair in pairs) if file is not None),
        targets=sum(len(pair.names) for pair in pairs),
        untraced=sum(pair.count_untraced() for pair in pairs),
        missing_counts=tuple(MissingCount(*key, number) for key, number in missing.items()),
    )


# -- one side of one file ---------------------------------------------------------------------


# Name of the target's count that includes the findings of a family, by the family (the part of a
# code before the slash).
_COUNTED: dict[str, Count] = {
    "graph-break": "breaks",
    "frame-skipped": "skips",
    "recompile": "recompiles",
}
# Codes of findings that make the result of a traced target incomplete.
_PARTIAL = ("trace/incomplete", "trace/needs-real-tensors")
_FAILURES = (
    "trace/eager-error",
    "trace/compile-error",
    "trace/needs-real-tensors",
    "trace/timeout",
    "trace/crashed",
)
_STATUS_WORDS = {
    "failed": "failed",
    "timeout": "reached the time limit",
    "crashed": "crashed",
    "no-probe": "not traced (inputs not known)",
    "cancelled": "cancelled",
    "skipped": "skipped (time limit of the file)",
}


def outcome_words(run: ReportedTarget, *, brief: bool = False) -> str:
    """Describe the outcome of tracing a target: ``traced``, ``failed: ValueError: …`` and so on.

    ``brief`` omits the error message.
    """
    error = "" if brief else run.error.strip().split("\n", 1)[0]
    words = _STATUS_WORDS.get(run.status, run.status)
    return f"{words}: {error}" if error else words


def code_family(code: str) -> str:
    """Return the part of a finding's code before the slash: ``graph-break`` of
    ``graph-break/GB0059``."""
    return code.partition("/")[0]


@dataclass(frozen=True)
class _FileSide:
    """The results of one file on one side of the comparison (old or new); ``report`` is the whole
    report of that side.

    ``file`` is None if the side does not have the file, or did not check it.
    """

    side: Side
    file: ReportedFile | None
    report: CheckReport

    @property
    def targets(self) -> tuple[ReportedTarget, ...]:
        return self.file.targets if self.file is not None else ()

    @property
    def findings(self) -> tuple[ReportedFinding, ...]:
        return self.file.findings if self.file is not None else ()

    @property
    def missing(self) -> bool:
        """Whether the file does not exist on this side."""
        return self.file is None and not self.report.problems

    def unread_reason(self) -> str:
        """Return why this side could not analyze the file; empty if it did."""
        if self.file is None:
            return next(iter(self.report.problems), "")
        parsed = (
            finding.message for finding in self.findings if finding.code == "trace/syntax-error"
        )
        return self.file.problem or next(parsed, "")

    def absent_reason(self, name: str) -> str:
        """Return why it is unknown whether the file has the target ``name``; empty if it is
        known."""
        if any(run.name == name for run in self.targets):
            return ""
        # If a file has targets and a note, the note says that not all targets were traced.
        cut = " ".join(self.file.notes) if self.file is not None and self.targets else ""
        return self.unread_reason() or cut

    def partial_reason(self, name: str) -> str:
        """Return why the result of the traced target ``name`` is incomplete; empty if it is
        complete."""
        partial = (finding for finding in self.findings if finding.code in _PARTIAL)
        return next((finding.message for finding in partial if name in finding.targets), "")

    def uncomputed_reason(self, name: str, code: str) -> str:
        """Return why it is unknown whether the target ``name`` has findings with ``code``.

        Returns an empty string if it is known. ``name`` is empty for findings without a target.
        """
        kind = code_family(code)
        if not name or kind in ("probe", "schema"):
            return self.unread_reason()
        counted = _COUNTED.get(kind)
        for run in self.targets:
            if run.name == name and run.status != "traced":
                return outcome_words(run)
            if run.name == name and counted and getattr(run, counted) is None:
                return f"fullgraph cannot count {counted} with torch {self.report.torch}"
        return self.absent_reason(name) or self.partial_reason(name)


def _file_sides(side: Side, report: CheckReport) -> dict[Path, _FileSide]:
    return {absolute_path(Path(file.path)): _FileSide(side, file, report) for file in report.files}


# -- both sides of one file -------------------------------------------------------------------


# Looser keys for findings without an exact match: another torch may word a message differently,
# or give an id to a graph break that did not have one.
_REWORDED: tuple[Key[Trait], ...] = (
    lambda trait: (trait.code, trait.text, trait.target, trait.line),
    lambda trait: (trait.code, trait.text, trait.target),
    lambda trait: (_trait_family(trait), trait.text, trait.target, trait.line),
    lambda trait: (_trait_family(trait), trait.text, trait.target),
    lambda trait: ("failure", trait.target) if _is_failure(trait) else trait,
)
_SAME_RUN: tuple[Key[ReportedTarget], ...] = (
    lambda run: (run.name, run.inputs),
    lambda run: run.name,
)


def _is_failure(trait: Trait) -> bool:
    """Whether a finding says why a target could not be traced; each trace has at most one such
    finding."""
    return bool(trait.target) and trait.code in _FAILURES


def _trait_family(trait: Trait) -> str:
    """Return a key by which findings about the same problem on a line are equal.

    The key is the family of the code for graph breaks and failed traces, else the whole code.
    """
    kind = code_family(trait.code)
    return kind if kind in ("graph-break", "trace") else trait.code


@dataclass(frozen=True)
class _FilePair:
    old: _FileSide
    new: _FileSide

    @property
    def names(self) -> dict[str, None]:
        """Names of the targets of both sides, in the order of their lines."""
        runs = sorted((*self.new.targets, *self.old.targets), key=lambda run: run.line)
        return dict.fromkeys(run.name for run in runs)

    def compare_files(self) -> FileDifference | None:
        """Return the differences between both sides of the file; None if there are none."""
        runs, findings = list(self.compare_runs()), list(self.compare_findings())
        names = [*self.names, *(finding.shown.target for finding in findings)]
        targets = []
        for name in dict.fromkeys(["", *names]):
            own = [run for run in runs if run.shown.name == name and run.differs]
            found = [finding for finding in findings if finding.shown.target == name]
            if own or found:
                targets.append(TargetDifference(name, tuple(own), tuple(found)))
        unread = [
            Uncomputed(half.side, half.file.problem)
            for half in (self.old, self.new)
            if half.file is not None and half.file.problem
        ]
        if not targets and not unread:
            return None
        file = self.new.file or self.old.file
        assert file is not None
        missing = [half.side for half in (self.old, self.new) if half.missing]
        return FileDifference(file.path, tuple(targets), tuple(unread), *missing)

    def compare_runs(self) -> Iterator[RunDifference]:
        old, new = self.old.targets, self.new.targets
        pairs = match_items(old, new, _SAME_RUN, allow_surplus=True)
        for number, run in enumerate(new):
            if number in pairs:
                uncomputed = _uncomputed_if(self.old, self.old.partial_reason(run.name))
                uncomputed = uncomputed or _uncomputed_if(
                    self.new, self.new.partial_reason(run.name)
                )
                yield RunDifference(old[pairs[number]], run, uncomputed)
            else:
                yield RunDifference(
                    None, run, _uncomputed_if(self.old, self.old.absent_reason(run.name))
                )
        for number, run in enumerate(old):
            if number not in pairs.values():
                yield RunDifference(
                    run, None, _uncomputed_if(self.new, self.new.absent_reason(run.name))
                )

    def compare_findings(self) -> list[FindingDifference]:
        """Return the findings that differ between the sides, in the order of their lines."""
        old, new = self.old.findings, self.new.findings
        pairs = _pair_traits([finding.trait for finding in old], [finding.trait for finding in new])
        found = [
            self._added_finding(finding)
            for number, finding in enumerate(new)
            if number not in pairs
        ]
        found += [
            self._removed_finding(finding)
            for number, finding in enumerate(old)
            if number not in pairs.values()
        ]
        for new_index, old_index in pairs.items():
            if _finding_facts(old[old_index]) != _finding_facts(new[new_index]):
                found.append(FindingDifference("changed", old[old_index], new[new_index]))
        return sorted(
            found, key=lambda finding: (finding.shown.line, finding.shown.character, finding.kind)
        )

    def _added_finding(self, finding: ReportedFinding) -> FindingDifference:
        # The finding is new if at least one of its targets certainly did not have it on the old
        # side.
        if code_family(finding.code) == "trace":
            reason = self.old.unread_reason()
        else:
            reasons = [
                self.old.uncomputed_reason(name, finding.code) for name in finding.targets or ("",)
            ]
            reason = reasons[0] if all(reasons) else ""
        why = _uncomputed_if(self.old, reason)
        return FindingDifference("unknown" if why else "new", None, finding, why)

    def _removed_finding(self, finding: ReportedFinding) -> FindingDifference:
        reasons = [
            self.new.uncomputed_reason(name, finding.code) for name in finding.targets or ("",)
        ]
        why = _uncomputed_if(self.new, next(filter(None, reasons), ""))
        return FindingDifference("unknown" if why else "gone", finding, None, why)

    def count_untraced(self) -> int:
        """Return the number of targets that neither side could trace."""
        traced = {r.name for r in (*self.old.targets, *self.new.targets) if r.status == "traced"}
        return len(self.names.keys() - traced)

    def missing_counts(self) -> Iterator[tuple[Side, Count]]:
        """Yield the side and the name of each count that the side's torch cannot report, once for
        each traced target."""
        missing = dict.fromkeys(
            (run.name, half.side, count)
            for half in (self.old, self.new)
            for run in half.targets
            for count in COUNTS
            if run.status == "traced" and getattr(run, count) is None
        )
        return ((side, count) for _, side, count in missing)


def _pair_traits(old: list[Trait], new: list[Trait]) -> dict[int, int]:
    """Pair new findings with old ones, by equal properties first, then by looser keys.

    Return the index in ``old`` by the index in ``new``; unpaired findings are left out.
    """
    pairs = match_items(old, new, SAME)
    return match_items(old, new, (*SAME, *_REWORDED), paired=pairs, allow_surplus=True)


def _finding_facts(finding: ReportedFinding) -> tuple[object, ...]:
    return finding.code, finding.severity, finding.message, finding.count


def _uncomputed_if(half: _FileSide, reason: str) -> Uncomputed | None:
    return Uncomputed(half.side, reason) if reason else None
