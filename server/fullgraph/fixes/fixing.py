"""Fix all findings of one text that rewrites can fix, one after the other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fullgraph.domain.positions import text_hash
from fullgraph.fixes.candidate import apply_edits
from fullgraph.fixes.fixable import fixable
from fullgraph.fixes.step_times import StepTimes
from fullgraph.fixes.tracing import Traced, Tracer, events, is_serious, same
from fullgraph.fixes.verification import Fix, Grade, Search, Verifier, without_overlaps
from fullgraph.incremental import ParsedText, align_versions, find_unaffected, parse_text
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.results import Results
from fullgraph_engine.protocol import Analyze, Finding, Part

_SAFE: tuple[Grade, ...] = ("safe",)
APPLICABLE: tuple[Grade, ...] = ("safe", "unsafe")
"""Grades of fixes that can be applied without adapting them first."""
_MOST_ROUNDS = 60
"""Maximum number of fixes applied to one text; the text is traced again after each."""
RECOMPILE_SECONDS = 90.0
"""Seconds after which the searches for fixes of recompiles end by default, if they find none. Each
attempt executes the program."""
_NOT_TRIED = (
    "No fix was searched for this recompile, because searches for other recompiles took too long; "
    "give them more time with `fullgraph fix --recompile-time`."
)


@dataclass(frozen=True)
class Offered:
    """A finding (such as a graph break), and the outcome of the search for its fixes."""

    finding: Finding
    search: Search = field(default_factory=Search)


@dataclass(frozen=True)
class Fixed:
    """The result of fixing a text.

    ``text`` is the fixed text. Each fix in ``applied`` edits the text that the previous fix
    produced; the fixes given to :func:`fixed_with` all edit the original text. ``left`` has the
    graph breaks that remain, each with its verified fixes, if any. It ends with the findings that
    say that code was not traced to its end.
    """

    text: str
    applied: tuple[Fix, ...] = ()
    left: tuple[Offered, ...] = ()
    problem: str = ""
    """Sentence that explains why fixes could not be tried; empty otherwise."""
    untraced: tuple[str, ...] = ()
    """Names of functions and classes without inputs or over the time limit of the file, whose graph
    breaks are unknown."""


async def fixed(
    tracer: Tracer,
    request: Analyze,
    *,
    grades: Collection[Grade] = _SAFE,
    backend: bool = False,
    recompile_seconds: float = RECOMPILE_SECONDS,
    tried: Collection[TextPlace] = (),
    tell: Callable[[str], None] = lambda _: None,
    times: StepTimes | None = None,
) -> Fixed:
    """Trace a text and apply the best fix with a grade in ``grades`` to each graph break, until
    further fixes fail.

    ``request`` describes how to trace the text; ``backend`` is true if fixes are compared with the
    compiler backend as well. Searches for recompiles end after ``recompile_seconds`` seconds
    without a fix. Findings in ``tried`` are left alone. ``tell`` is called with a message about
    each finding before its fixes are tried. ``times`` collects the seconds of each step.
    """
    times = times or StepTimes()
    text = request.text
    applied: list[Fix] = []
    offered: dict[_Place, Offered] = {}
    # The phases that only trace the given inputs are fast, so they are traced again after each fix.
    quick: tuple[Part, ...] = ("first",) if "first" in request.parts else request.parts
    traced = tuple(part for part in request.parts if part != "backend")
    rest = list(dict.fromkeys((quick, traced, request.parts)))
    parts, retracer = rest.pop(0), Retracer(tracer)
    unfixed_seconds = 0.0  # time of the searches for recompiles since the last fix
    while True:
        request = dataclasses.replace(request, text=text, generation=text_hash(text), parts=parts)
        with times.measure("trace"):
            now = await retracer.trace(request)
        missing = set(request.only) - {report.name for report in now.reports}
        if missing and not applied and not now.problem:
            names = ", ".join(sorted(missing))
            return Fixed(text, problem=f"the file has no function or class {names} to trace.")
        if now.problem:
            return Fixed(text, tuple(applied), tuple(offered.values()), now.problem)
        verifier = Verifier(tracer, request, backend=backend, traced=now, times=times)
        places = _places_with_targets(now)
        offered = {place: was for place, was in offered.items() if place in places}
        if len(applied) >= _MOST_ROUNDS:
            break
        chosen = None
        # Most recompiles of a program end with the graph breaks before them, so they come last.
        ordered = sorted(places.items(), key=lambda item: item[0][0].startswith("recompile"))
        for place, (finding, targets) in ordered:
            if place in offered or place[:3] in tried:
                continue
            is_recompile = place[0].startswith("recompile")
            if is_recompile and unfixed_seconds >= recompile_seconds:
                offered[place] = Offered(finding, Search(problem=_NOT_TRIED))
                continue
            tell(f"line {finding.range.start.line + 1}: {finding.message}")
            began = time.monotonic()
            search = await verifier.fixes(finding, targets)
            if is_recompile:
                unfixed_seconds += time.monotonic() - began
            chosen = next((fix for fix in search.fixes if fix.grade in grades), None)
            if chosen is not None:
                break
            offered[place] = Offered(finding, search)
        if chosen is None:
            if not rest:
                break
            parts = rest.pop(0)
            continue
        applied.append(chosen)
        unfixed_seconds = 0.0
        text = chosen.candidate.text
        # If a recompile has several reasons, one change may remove only one of them.
        offered = {
            place: was for place, was in offered.items() if not place[0].startswith("recompile")
        }
        untried = (one for place, (one, _) in places.items() if place not in offered)
        more = any(not any(same(one, ended) for ended in chosen.findings) for one in untried)
        if rest and not more and not chosen.judgment.revealed:
            parts = rest.pop(0)
    left = [offered.get(place, Offered(finding)) for place, (finding, _) in places.items()]
    left += [Offered(finding) for finding in now.findings if _hides_findings(finding)]
    untraced = dict.fromkeys(
        one.name
        for one in now.reports
        if one.status in ("no-probe", "skipped") and one.compiled is not False
    )
    return Fixed(text, tuple(applied), tuple(left), untraced=tuple(untraced))


def _hides_findings(finding: Finding) -> bool:
    """Whether a finding says that tracing ended early, so that later code may have further
    findings.
    """
    return finding.code.startswith("trace/") and is_serious(finding) and not fixable(finding)


async def fixed_with(
    tracer: Tracer,
    request: Analyze,
    findings: Collection[Finding],
    fixes: Sequence[Fix],
    tell: Callable[[str], None] = lambda _: None,
) -> Fixed:
    """Apply several verified fixes of one text, and fix the graph breaks that they reveal.

    ``findings`` are the findings of the text of ``request`` for which a search has ended; ``fixes``
    are fixes that it found. A fix is left out if another one removes its finding or edits its
    lines. ``tell`` is called with a message about each further finding.
    """
    chosen: list[Fix] = []
    # A fix that removes several findings makes a separate fix for each finding unnecessary.
    for fix in sorted(fixes, key=lambda one: -len(one.findings)):
        if not any(same(fix.findings[0], ended) for one in chosen for ended in one.findings):
            chosen.append(fix)
    chosen = without_overlaps(chosen)
    edits = sorted((edit for fix in chosen for edit in fix.edits), key=lambda edit: edit.range)
    known = Fixed(apply_edits(request.text, edits), tuple(chosen))
    if not any(fix.judgment.revealed for fix in chosen):
        return known
    lines = request.text.split("\n")
    further = await fixed(
        tracer,
        dataclasses.replace(request, text=known.text, generation=text_hash(known.text)),
        grades=APPLICABLE,
        tried={_text_place(finding, lines) for finding in findings},
        tell=tell,
    )
    return dataclasses.replace(further, applied=(*known.applied, *further.applied))


TextPlace = tuple[str, str, str]
"""Code and message of a finding, and the text of its line without indentation."""


def _text_place(finding: Finding, lines: Sequence[str]) -> TextPlace:
    number = finding.range.start.line
    words = lines[number].strip() if number < len(lines) else ""
    return finding.code, finding.message, words


_Place = tuple[str, str, str, int]
"""Key of a finding in versions of a text: code, message, text of the line, and index among findings
with the same three.

It stays the same when other lines change.
"""


def _places_with_targets(now: Traced) -> dict[_Place, tuple[Finding, list[str]]]:
    """Return each graph break once, with the names of the traced functions that reach it, in the
    order of the text."""
    lines = now.text.split("\n")
    found: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for finding in sorted(now.findings, key=lambda one: one.range):
        if fixable(finding):
            key = finding.code, finding.message, finding.range
            targets = found.setdefault(key, (finding, []))[1]
            if finding.target not in targets:
                targets.append(finding.target)
    placed: dict[_Place, tuple[Finding, list[str]]] = {}
    for finding, targets in found.values():
        place = (*_text_place(finding, lines), 0)
        while place in placed:
            place = (*place[:3], place[3] + 1)
        placed[place] = finding, targets
    return placed


@dataclass(frozen=True)
class _Version:
    """One version of the file with its results."""

    parsed: ParsedText
    results: Results


class Retracer:
    """A tracer of versions of one file, with the settings of one request.

    Targets that a change cannot affect keep their results.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._last: dict[tuple[Part, ...], _Version] = {}
        """Last traced version of the file, by the phases of the trace (such as ``first`` or
        ``paths``) that were requested.
        """

    async def trace(self, request: Analyze) -> Traced:
        """Trace the text of a request; return the findings and reports of all its targets."""
        results, parsed = Results(), parse_text(request.text)
        before = self._last.get(request.parts)
        kept = frozenset[str]()
        if before is not None and parsed is not None:
            kept = _adopt_results(results, before, request, parsed)
            request = dataclasses.replace(request, without=tuple(sorted(kept)))
        results.begin_run(request.only, kept)
        async for event in events(self._tracer.analyze(request)):
            results.apply_event(event)
        results.complete_run()
        if parsed is not None and results.failure is None:
            self._last[request.parts] = _Version(parsed, results)
        return Traced.from_results(request.text, results)


def _adopt_results(
    results: Results, before: _Version, request: Analyze, parsed: ParsedText
) -> frozenset[str]:
    """Copy the results of targets that the change cannot affect, with ranges in the new text;
    return the names of the targets."""
    known = before.results
    change = align_versions(before.parsed, parsed) if not known.note else None
    if change is None:
        return frozenset()
    unaffected = find_unaffected(before.parsed, parsed, change, known.targets)
    moved = known.relocate_to(CodeMap(change.moves, parsed.lines), request.path)
    kept = unaffected & moved.placed
    results.adopt_targets(moved, kept)
    return kept
