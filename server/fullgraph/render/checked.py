"""Results of a run of ``fullgraph check``, as the input of every output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import ForecastFound, Status, TargetReport, Timings

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed
    from fullgraph.fixes.numerics import JudgedTarget


LeftOut = Literal["dynamic sizes", "other paths"]
"""A kind of trace that a setting turns off."""

Untraced = Literal[
    "without inputs",
    "over the time limit of the file",
    "over the time limit of a trace",
    "crashed",
    "cancelled",
    "not compiled by a program",
]
"""Reason why a function or module was not traced to its end."""

_UNTRACED: Mapping[Status, Untraced] = {
    "no-probe": "without inputs",
    "skipped": "over the time limit of the file",
    "timeout": "over the time limit of a trace",
    "crashed": "crashed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class CheckedFile:
    """Results of one file.

    ``path`` is as the user wrote it, ``absolute`` as the engine reports it. ``timed`` are measured
    run times, ``numerics`` says whether compiled results are right, ``timings`` say where the check
    spent its time. ``problem`` explains in a sentence why the file could not be checked; else it is
    empty. ``known`` counts the findings that a baseline (a file of accepted findings) hides.
    Findings at or above ``exit_severity`` make the check fail.
    """

    path: str
    absolute: str
    text: TextPositions
    targets: tuple[TargetReport, ...] = ()
    findings: tuple[FileFinding, ...] = ()
    forecasts: tuple[ForecastFound, ...] = ()
    timed: tuple[Timed, ...] = ()
    numerics: tuple[JudgedTarget, ...] = ()
    timings: tuple[Timings, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    problem: str = ""
    known: int = 0
    stale: int = 0
    """Number of accepted findings in the baseline that no longer occur."""
    exit_severity: Severity = Severity.WARNING
    conclusive: frozenset[str] = frozenset()
    """Names of the kinds of findings that the check would have found, if the file had any.

    They are names of rows in the table of codes. Empty if a function or module was not traced to
    its end.
    """
    left_out: tuple[LeftOut, ...] = ()
    """Kinds of traces that the settings of the file left out."""
    unfinished: bool = False
    """True if the check ended while the file was traced, so that it has only some results."""
    defect: str = ""
    """Traceback of an unexpected exception of fullgraph itself; empty without one."""

    @property
    def untraced(self) -> Mapping[Untraced, int]:
        """Number of functions and modules that were not traced to their end, by the reason."""
        reasons: dict[tuple[object, ...], Untraced | None] = {}
        for report in self.targets:
            name = (report.name, report.range)
            reason = _untraced_reason(report)
            # A target counts as traced if one of its sets of inputs was traced.
            reasons[name] = reason and reasons.get(name, reason)
        return Counter(reason for reason in reasons.values() if reason)


@dataclass(frozen=True)
class CheckResults:
    """Results of a run of ``fullgraph check`` over all files.

    ``torch`` and ``python`` are versions, empty if no file had to be traced. ``problems`` concern
    the whole check: a missing path, an interpreter without torch. ``missing`` are the paths of
    files that were not analyzed, because the check ended before.
    """

    files: tuple[CheckedFile, ...]
    torch: str = ""
    python: str = ""
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Whether a file could not be checked, or the check itself had a problem."""
        return bool(self.problems or self.missing) or any(file.problem for file in self.files)

    @property
    def defective(self) -> bool:
        """Whether fullgraph itself raised an unexpected exception."""
        return any(file.defect for file in self.files)

    @property
    def unanalyzed(self) -> bool:
        """Whether a function was not traced, or a program did not run to its end.

        A function is not traced if its inputs are unknown, or if the time ran out. Files whose exit
        severity is ``off`` do not count.
        """
        return any(map(_is_unanalyzed, self.files))

    @property
    def fails(self) -> bool:
        """Whether there is a finding at or above the exit severity of its file."""
        return any(
            item.severity.reaches(file.exit_severity)
            for file in self.files
            for item in file.findings
        )

    @property
    def untraced(self) -> Mapping[Untraced, int]:
        """Number of functions and modules that were not traced to their end, by the reason."""
        return sum((Counter(file.untraced) for file in self.files), Counter())

    @property
    def known(self) -> int:
        """Number of findings that a baseline (a file of accepted findings) hides."""
        return sum(file.known for file in self.files)

    def findings(self) -> Iterable[FileFinding]:
        return (item for file in self.files for item in file.findings)

    def count_severities(self) -> Mapping[Severity, int]:
        return Counter(item.severity for item in self.findings())


def _untraced_reason(report: TargetReport) -> Untraced | None:
    if report.status == "no-probe" and report.compiled is False:
        return "not compiled by a program"
    return _UNTRACED.get(report.status)


def _is_unanalyzed(file: CheckedFile) -> bool:
    if file.exit_severity is Severity.OFF:
        return False
    codes = (item.finding.code for item in file.findings)
    skipped = any(report.status in ("skipped", "cancelled") for report in file.targets)
    return skipped or any(code == "probe/missing" or code.startswith("program/") for code in codes)
