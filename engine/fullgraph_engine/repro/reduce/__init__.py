"""Makes a program smaller that shows something, as long as it still shows it.

Hierarchical delta debugging on the syntax tree: text goes in, text comes out, and a tester says of
each candidate whether it shows what is wanted.
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
    """The smallest program that was found, the given one if there is none or it is no Python.

    The given one is taken to be interesting. ``deadline`` is a time of ``clock``; ``report`` is
    told each better program and how many were tried until then.
    """
    try:
        start, plain = ParsedProgram.parse(text), ParsedProgram.parse(format_program(text))
    except (SyntaxError, ValueError, RecursionError):
        return text
    search = ReductionSearch(PASSES, test, deadline=deadline, report=report, clock=clock)
    if text == plain.text or search.shows(plain):
        start = plain
    return search.run(start).text
