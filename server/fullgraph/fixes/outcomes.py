"""Outcomes of the search for fixes of a finding: verified and refused rewrites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fullgraph.domain.phrases import amount
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.tracing import Judgment
from fullgraph_engine.protocol import Compared, Finding, TextEdit

Grade = Literal["safe", "unsafe", "suggestion"]
"""Grade of a fix, as in clippy and ruff.

Safe: equivalent for every input by construction, and verified. Unsafe: only verified for the inputs
that were tried, or the user gives something up. Suggestion: a person has to adapt it; it removes
the graph break, but was not shown to be equivalent.
"""


@dataclass(frozen=True)
class Fix:
    """A verified rewrite.

    ``findings`` are the findings that it removes, first the finding that it was made for.
    """

    candidate: Candidate
    grade: Grade
    findings: tuple[Finding, ...]
    edits: tuple[TextEdit, ...]
    judgment: Judgment
    compared: tuple[Compared, ...] = ()
    """Comparisons of the rewrite with the original, one for each compared function."""
    seconds: float = 0.0
    """Seconds from the start of the search until the fix was verified."""
    doubt: str = ""
    """Sentence that explains why the grade is not better; empty for a safe fix."""
    pins: tuple[Finding, ...] = ()
    """Findings about guards that the fix adds, because code that ran in eager mode is now compiled.
    """
    compile_times: CompileTimes | None = None
    """Compile times, for a fix that only shortens the compilation."""


@dataclass(frozen=True)
class CompileTimes:
    """Processor seconds of compiling the original code and the rewritten code."""

    before: float
    after: float

    @property
    def speedup(self) -> float:
        return self.before / max(self.after, 1e-9)


_LEAST_SPEEDUP = 1.25
"""Minimum ratio of the compile times before and after a rewrite that only shortens them."""


def is_faster(times: CompileTimes | None) -> bool:
    """Whether the rewritten code was compiled, and in a noticeably shorter time."""
    return times is not None and times.speedup >= _LEAST_SPEEDUP


def slow_words(times: CompileTimes | None) -> str:
    """Return a sentence that explains the refusal of a rewrite that does not shorten the compile
    time.
    """
    if times is None:
        return "Compiling the original or the changed code did not finish."
    return (
        f"The changed code does not compile much faster: {times.after:.1f} s instead of "
        f"{times.before:.1f} s."
    )


@dataclass(frozen=True)
class Refused:
    """A rewrite that was refused, with the reason (``why``) as a sentence."""

    candidate: Candidate
    why: str
    instead: tuple[Finding, ...] = ()
    """Graph breaks that replace the finding in the rewritten code, if all new findings are of one
    kind; else empty.
    """
    differs: bool = False
    """True if the rewritten code was executed and behaves differently."""


@dataclass(frozen=True)
class Search:
    """The outcome of the search for fixes of a finding: verified fixes, best first, and refused
    rewrites.
    """

    fixes: tuple[Fix, ...] = ()
    refused: tuple[Refused, ...] = ()
    problem: str = ""
    """Sentence that explains why no rewrite was tried; empty if some were."""

    @property
    def why_unfixed(self) -> str:
        """Sentence that explains why the search found no fix; empty if it found one."""
        if self.fixes or not self.refused:
            return self.problem if not self.fixes else ""
        first = self.refused[0]
        reason = f"“{first.candidate.title}” was refused: {first.why}"
        more = len(self.refused) - 1
        return f"{reason} {amount(more, 'other rewrite')} failed, too." if more else reason
