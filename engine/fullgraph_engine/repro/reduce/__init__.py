"""A reducer that makes a program smaller while the program still shows its finding.

It performs hierarchical delta debugging on the syntax tree. A test function (the oracle) judges
whether each smaller program is interesting, which means that it still shows the finding.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from .passes import PASSES
from .program import ParsedProgram, ProgramSize, count_lines, format_program
from .search import Pass, ReductionSearch, Tester

__all__ = [
    "PASSES",
    "ParsedProgram",
    "Pass",
    "ProgramSize",
    "Tester",
    "count_lines",
    "format_program",
    "reduce_program",
]


def reduce_program(
    text: str,
    test: Tester,
    *,
    deadline: float,
    report: Callable[[str, int], None],
    clock: Callable[[], float] = monotonic,
) -> str:
    """Make a program as small as possible while it still shows its finding; return the smallest.

    ``test`` decides whether a program shows the finding; the given ``text`` must show it.
    ``deadline`` is a time of ``clock``. ``report`` receives each better program and the number of
    programs tried so far.
    """
    try:
        start, plain = ParsedProgram.parse(text), ParsedProgram.parse(format_program(text))
    except (SyntaxError, ValueError, RecursionError):
        return text
    search = ReductionSearch(PASSES, test, deadline=deadline, report=report, clock=clock)
    if text == plain.text or search.shows(plain):
        start = plain
    return search.run(start).text
