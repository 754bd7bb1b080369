"""The lines and finding codes about which the traces of a file are conclusive: without a finding
there, the code does not have the problem."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fullgraph.domain import codes
from fullgraph.domain.codes import Severity
from fullgraph.domain.positions import TextPositions
from fullgraph.incremental.statements import parse_quietly
from fullgraph.results import Results
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Degraded, Range, TargetReport
from fullgraph_engine.protocol.facts import CODES

_ALWAYS = ("graph-break", "frame-skipped", "op", "guard/mutated", "trace/eager-error")
_OF_DYNAMIC_SIZES = CODES["specializations"]
_OF_FORECASTS = ("recompile",)
_OF_EXPORT = ("export",)
_OF_BACKEND = ("backend",)
_OF_INCOMPLETE_TRACES = ("trace", "program", "probe")
"""Families of codes of findings that say why a file was traced only in part."""

_BRANCHES = (ast.IfExp, ast.BoolOp, ast.Compare, ast.comprehension, ast.Lambda, ast.Assert)
_Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class TraceExtent:
    """The lines and finding codes about which the traces of a file are conclusive.

    ``codes`` are the names of rows of the table of codes. ``lines`` are zero-based. Both are empty
    if a target of the file was not traced to its end, for example because of a time limit.
    """

    codes: frozenset[str] = frozenset()
    lines: frozenset[int] = frozenset()
    everything: bool = False
    """True if the traces looked for all findings that a comment without codes hides by default,
    which includes forecasts of recompiles."""
    select: tuple[str, ...] = ()
    """Setting ``select``: codes to show; empty for all."""
    hidden: tuple[str, ...] = ()
    """Codes that the user's settings hide."""

    @classmethod
    def of_results(
        cls,
        results: Results,
        text: TextPositions,
        settings: Settings,
        degraded: Iterable[Degraded],
        *,
        with_lines: bool = True,
    ) -> TraceExtent:
        """Return the extent of the last traces of ``text``.

        ``degraded`` are the facts about traces that the installed torch does not show completely.
        Without ``with_lines``, the lines are empty, and the text is not parsed.
        """
        families = {finding.code.partition("/")[0] for finding in results.findings()}
        incomplete = not families.isdisjoint(_OF_INCOMPLETE_TRACES)
        if incomplete or not results.is_complete or not settings.try_paths:
            return cls()
        lost = {run.part for run in results.lost_runs}
        dynamic = settings.try_dynamic and "second" not in lost
        forecast = _is_forecast_complete(results)
        selectors = list(_ALWAYS)
        if settings.export and "export" not in lost:
            selectors += _OF_EXPORT
        if settings.backend == "inductor" and "backend" not in lost:
            selectors += _OF_BACKEND
        if dynamic:
            selectors += _OF_DYNAMIC_SIZES
        if forecast:
            selectors += _OF_FORECASTS
        hidden = [code.rstrip("/") for one in degraded for code in CODES.get(one.fact, ())]
        found = frozenset(
            row.name
            for row in codes.CODES
            if _is_any(row.name, selectors)
            and not _is_any(row.name, hidden)
            and "" not in hidden
            and codes.effective_severity(row.name, settings.severity) is not Severity.OFF
        )
        off = (one for one, severity in settings.severity.items() if severity is Severity.OFF)
        reports = [shown.report for shown in results.reports()]
        whole = forecast and dynamic and not hidden
        lines = frozenset(_reached_lines(text, reports)) if with_lines else frozenset[int]()
        return cls(found, lines, whole, settings.select, (*settings.ignore, *off))

    def looks_for(self, selector: str) -> bool:
        """Whether the traces looked for every code that ``selector`` (such as ``GB0059`` or
        ``recompile``) selects. True for a misspelled selector, which does not select any code."""
        full = _full_code(selector)
        may_be_hidden = any(
            codes.matches_selector(full, one) or codes.matches_selector(_full_code(one), full)
            for one in self.hidden
        )
        if not self.codes or may_be_hidden or not codes.is_selected(full, self.select, ()):
            return False
        rows = {row.name for row in codes.CODES if codes.matches_selector(row.name, full)}
        if not rows and codes.is_known_selector(full):
            rows.add(codes.find_row(full).name)
        return rows <= self.codes


def _full_code(selector: str) -> str:
    """Return ``graph-break/GB0059`` for ``GB0059``, and other selectors unchanged."""
    return f"graph-break/{selector}" if codes.GRAPH_BREAK_ID.fullmatch(selector) else selector


def _is_any(code: str, selectors: Iterable[str]) -> bool:
    return any(codes.matches_selector(code, selector) for selector in selectors)


def _is_forecast_complete(results: Results) -> bool:
    """Whether each target has a complete forecast of its recompiles."""
    events = results.forecasts.list_events()
    return not results.targets_without_forecast() and not any(event.note for event in events)


def _reached_lines(text: TextPositions, reports: Iterable[TargetReport]) -> Iterator[int]:
    """Yield the lines of each statement that was traced completely. Traces reached at least one of
    its instructions and did not leave out any other."""
    traced, missed = set[Range](), set[Range]()
    for report in reports:
        if report.coverage is not None:
            reached, others = report.coverage.unpack_ranges()
            traced.update(reached)
            missed.update(others)
    traced_lines = {place.start.line for place in traced}
    missed_lines = {place.start.line for place in missed - traced}
    # Python 3.10 does not have columns, so a line counts as traced if a part of it was.
    has_columns = any(place.start.byte for place in traced)
    for statement in _list_statements("\n".join(text.lines)):
        is_sure = has_columns or not statement.branches
        is_traced = not traced_lines.isdisjoint(statement.body)
        if is_sure and is_traced and missed_lines.isdisjoint(statement.body):
            yield from statement.lines


@dataclass(frozen=True)
class _Statement:
    """The zero-based lines of a statement, without the blocks inside it.

    The instructions on the lines in ``body`` decide whether the statement was traced. For a
    function or class, ``body`` is the whole definition, because findings at its first line concern
    all of it.
    """

    lines: range
    body: range
    branches: bool
    """True if the statement, or a statement inside it, has an expression that may not evaluate all
    of its parts, such as ``a if b else c``."""

    @classmethod
    def of_node(cls, node: ast.stmt) -> _Statement:
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        block: list[ast.stmt] = getattr(node, "body", [])
        cases: list[ast.match_case] = getattr(node, "cases", [])
        starts = [one.lineno - 1 for one in block]
        starts += [case.pattern.lineno - 1 for case in cases]
        lines = range(first, max(first + 1, starts[0]) if starts else last)
        branches = any(isinstance(one, _BRANCHES) for one in ast.walk(node))
        return cls(lines, range(first, last) if isinstance(node, _Definition) else lines, branches)


@functools.lru_cache(maxsize=8)
def _list_statements(text: str) -> tuple[_Statement, ...]:
    """Return all statements of a text; empty if it has a syntax error."""
    try:
        tree = parse_quietly(text)
    except SyntaxError:
        return ()
    return tuple(_Statement.of_node(node) for node in ast.walk(tree) if isinstance(node, ast.stmt))
