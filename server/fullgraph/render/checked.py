"""Results of a run of ``fullgraph check``, as the input of every output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import ForecastFound, TargetReport, Timings

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed


@dataclass(frozen=True)
class CheckedFile:
    """Results of one file.

    ``path`` is as the user wrote it, ``absolute`` as the engine reports it. ``timed`` are measured
    run times, ``timings`` say where the check spent its time. ``problem`` explains in a sentence
    why the file could not be checked; else it is empty. ``known`` counts the findings that a
    baseline (a file of accepted findings) hides.
    """

    path: str
    absolute: str
    text: TextPositions
    targets: tuple[TargetReport, ...] = ()
    findings: tuple[FileFinding, ...] = ()
    forecasts: tuple[ForecastFound, ...] = ()
    timed: tuple[Timed, ...] = ()
    timings: tuple[Timings, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    problem: str = ""
    known: int = 0


@dataclass(frozen=True)
class CheckResults:
    """Results of a run of ``fullgraph check`` over all files.

    ``torch`` and ``python`` are versions, empty if no file had to be traced. ``problems`` concern
    the whole check: a missing path, an interpreter without torch.
    """

    files: tuple[CheckedFile, ...]
    torch: str = ""
    python: str = ""
    seconds: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Whether a file could not be checked, or the check itself had a problem."""
        return bool(self.problems) or any(file.problem for file in self.files)

    @property
    def unanalyzed(self) -> bool:
        """Whether a finding reports a function that was not traced because no inputs are known, or
        a program that did not run to its end."""
        codes = (item.finding.code for item in self.findings())
        return any(code == "probe/missing" or code.startswith("program/") for code in codes)

    @property
    def known(self) -> int:
        """Number of findings that a baseline (a file of accepted findings) hides."""
        return sum(file.known for file in self.files)

    def reaches(self, threshold: Severity) -> bool:
        return any(item.severity.reaches(threshold) for item in self.findings())

    def findings(self) -> Iterable[FileFinding]:
        return (item for file in self.files for item in file.findings)

    def count_severities(self) -> Mapping[Severity, int]:
        return Counter(item.severity for item in self.findings())
