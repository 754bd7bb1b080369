"""The summary of one file: how many findings it has, what was traced in it, and what was not."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding


class Gap(enum.Enum):
    """The reason why a function or module of a file was not traced."""

    NO_INPUTS = "no inputs"
    NOT_COMPILED = "not compiled"
    """Reason for functions and modules that the program of the file does not compile."""
    FAILED = "failed"
    TIME_LIMIT = "time limit"
    """Reason for functions and modules left out when the time limit of the file was reached."""
    INHERITED = "inherited"
    """Reason for classes that inherit ``forward`` from a base class."""
    METHOD = "method"
    """Reason for methods other than ``forward`` that traced code does not call."""
    FUNCTION = "function"
    """Reason for functions that traced code does not call."""


TARGET_GAPS = frozenset({Gap.NO_INPUTS, Gap.NOT_COMPILED, Gap.FAILED, Gap.TIME_LIMIT})
"""Reasons why a target (a function or module that fullgraph would trace) was not traced."""


@dataclass(frozen=True)
class NotTraced:
    """A function or module that was not traced; ``line`` is the zero-based line of its name."""

    name: str
    line: int
    gap: Gap


@dataclass(frozen=True)
class FindingCounts:
    """Numbers of findings in a file; every display in an editor shows these numbers.

    ``problems`` are errors and warnings, which editors also show next to the file's name. ``notes``
    have the severity information. ``repeats`` are later findings with the same cause as an earlier
    one.
    """

    problems: int = 0
    notes: int = 0
    repeats: int = 0

    @classmethod
    def count(cls, findings: Iterable[FileFinding]) -> FindingCounts:
        """Return the numbers of the findings that an editor shows for a file."""
        problems = notes = repeats = 0
        for item in findings:
            if item.same_as is not None:
                repeats += 1
            elif item.shown_severity.reaches(Severity.WARNING):
                problems += 1
            elif item.shown_severity is Severity.INFORMATION:
                notes += 1
        return cls(problems, notes, repeats)


@dataclass(frozen=True)
class Obstacle:
    """The reason why nothing of a file was traced, as the end of a sentence, and what the user can
    do, as a sentence.

    ``by_command`` is true if the user can still trace the file with a command.
    """

    reason: str
    next_step: str = ""
    by_command: bool = False
    in_text: bool = False
    """True if the text of the file shows why nothing was traced, for example by a comment."""


@dataclass(frozen=True)
class FileSummary:
    """The findings of a file, and how many of its functions and modules were traced.

    ``traced`` is the number of traced functions and modules. ``missed_lines`` are the zero-based
    lines of traced functions that no trace reached. ``relevant`` is false if the file has nothing
    to trace. ``obstacle`` is None unless nothing was traced.
    """

    counts: FindingCounts = field(default_factory=FindingCounts)
    traced: int = 0
    not_traced: tuple[NotTraced, ...] = ()
    missed_lines: tuple[int, ...] = ()
    tracing: bool = False
    relevant: bool = True
    obstacle: Obstacle | None = None

    @property
    def targets(self) -> int:
        """Number of functions and modules that fullgraph tried to trace."""
        return self.traced + sum(one.gap in TARGET_GAPS for one in self.not_traced)
