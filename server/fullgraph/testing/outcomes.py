"""Results of checks as plain data, which pytest's reports carry from other processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fullgraph.testing.causes import Cause
from fullgraph_engine.protocol import Finding, TargetReport, from_plain, to_plain


@dataclass(frozen=True)
class FileOutcome:
    """Findings and reports of one file that a check reached; ``path`` is the absolute path of the
    file."""

    path: str
    findings: tuple[Finding, ...] = ()
    reports: tuple[TargetReport, ...] = ()


@dataclass(frozen=True)
class ExpectationUpdate:
    """The causes that a check found, for the section of the check in a file of expectations."""

    file: str
    section: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class Outcome:
    """Result of one check in a test.

    ``test`` is the node id of the test. ``failure`` is the message of a failed check, else empty.
    ``graphs`` is the number of compiled graphs, ``seconds`` the wall time of the check.
    """

    test: str
    failure: str
    graphs: int
    seconds: float
    torch: str
    files: tuple[FileOutcome, ...]
    update: ExpectationUpdate | None = None

    def to_plain(self) -> Any:
        """Return the outcome as lists, dictionaries and values."""
        return to_plain(self)

    @classmethod
    def from_plain(cls, plain: Any) -> Outcome:
        """Return the outcome from which :meth:`to_plain` made plain data."""
        outcome: Outcome = from_plain(cls, plain)
        return outcome
