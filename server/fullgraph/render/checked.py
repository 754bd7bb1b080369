"""What a check found, as every output format gets it."""

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
    """One file. ``path`` is as the user gave it, ``absolute`` as the engine knows it.

    ``problem`` says in a sentence why the file could not be checked; then it has no results.
    ``known`` is how many findings are left out because a baseline has them.
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
class Checked:
    """A whole check. ``torch`` and ``python`` are empty where no engine was needed.

    ``problems`` are those of no single file: a missing path, an interpreter without torch.
    """

    files: tuple[CheckedFile, ...]
    torch: str = ""
    python: str = ""
    seconds: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Whether something that was asked for could not be done."""
        return bool(self.problems) or any(file.problem for file in self.files)

    @property
    def unanalyzed(self) -> bool:
        """Whether something was not analyzed, as a shown finding says: a target without inputs, or
        a program that could not run to its end."""
        codes = (item.finding.code for item in self.findings())
        return any(code == "probe/missing" or code.startswith("program/") for code in codes)

    @property
    def known(self) -> int:
        """How many findings are left out because a baseline has them."""
        return sum(file.known for file in self.files)

    def reaches(self, threshold: Severity) -> bool:
        return any(item.severity.reaches(threshold) for item in self.findings())

    def findings(self) -> Iterable[FileFinding]:
        return (item for file in self.files for item in file.findings)

    def severities(self) -> Mapping[Severity, int]:
        return Counter(item.severity for item in self.findings())
