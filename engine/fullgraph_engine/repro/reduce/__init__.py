"""A reducer that makes a program smaller while the program still shows its finding.

It performs hierarchical delta debugging on the syntax tree. A test function (the oracle) judges
whether each smaller program is interesting, which means that it still shows the finding.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from . import calls, classes, compound, expressions, names, statements, values
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


PASSES = (
    Pass("idle", statements.drop_idle, likely=True),
    Pass("twins", classes.merge_twins, likely=True),
    Pass("submodules", statements.bypass_submodules, likely=True),
    Pass("cut", statements.drop_statements, finest=4),
    Pass("dropped", statements.drop_statements, basic=True),
    Pass("expressions", calls.inline_expressions, likely=True),
    Pass("starred", calls.unpack_starred, likely=True),
    Pass("unread", calls.drop_unread_parameters, likely=True),
    Pass("bypassed", statements.bypass_assignments),
    Pass("unwrapped", compound.unwrap_blocks, basic=True),
    Pass("fixed", calls.inline_fixed_parameters),
    Pass("leaves", expressions.replace_by_variable),
    Pass("variables", calls.inline_variables),
    Pass("inlined", calls.inline_functions),
    Pass("attributes", classes.inline_attributes),
    Pass("parts", classes.replace_by_attribute),
    Pass("bases", classes.drop_bases),
    Pass("functions", classes.classes_to_functions),
    Pass("bare", expressions.drop_targets),
    Pass("children", expressions.replace_by_child),
    Pass("tensors", values.simplify_tensors),
    Pass("elements", expressions.drop_elements),
    Pass("numbers", values.shrink_numbers),
    Pass("strings", values.empty_strings),
    Pass("constants", expressions.replace_by_constant),
    Pass("names", names.shorten_names, last=True, order=names.name_order),
)
