"""Verify rewrites that may fix a finding: trace them, compare their behavior, and grade them.

A candidate is a rewrite before its verification.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Generic, TypeVar

import libcst as cst

from fullgraph.domain.findings import undecided_condition
from fullgraph.domain.positions import text_hash
from fullgraph.fixes.candidate import Candidate, apply_edits, edits_between
from fullgraph.fixes.catalogue import candidates, continue_refused, extend_to_findings
from fullgraph.fixes.outcomes import CompileTimes, is_faster, slow_words
from fullgraph.fixes.outcomes import Fix as Fix
from fullgraph.fixes.outcomes import Grade as Grade
from fullgraph.fixes.outcomes import Refused as Refused
from fullgraph.fixes.outcomes import Search as Search
from fullgraph.fixes.program_verification import ProgramVerifier, needs_program
from fullgraph.fixes.site import Site, Text, Unparsable
from fullgraph.fixes.step_times import StepTimes
from fullgraph.fixes.tracing import (
    BUSY_STRETCH,
    Judgment,
    Traced,
    Tracer,
    events,
    is_alike,
    judge_rewrite,
    same,
    trace_file,
)
from fullgraph.incremental.statements import parse_quietly
from fullgraph_engine.protocol import (
    Analyze,
    Compare,
    Compared,
    CompilationMethod,
    Finding,
    Part,
    SeenValue,
    TargetReport,
)
from fullgraph_engine.protocol.evidence import MISSING_NEXT, BreakEvidence, ExportEvidence

LOOK_SECONDS = 15.0
"""Maximum seconds to trace rewritten code, in addition to ten times the seconds for the
original.
"""
COMPARE_SECONDS = 10.0
"""Maximum seconds to compare the behavior of one rewritten file with the original."""
COMPILE_SECONDS: dict[CompilationMethod, float] = {"lowered": 15.0, "inductor": 60.0}
"""Maximum seconds of processor time to compile one rewritten function and compare its results.
Results compared before the limit are used. Inductor takes longer because of its C++ compiler.
"""
QUICK_SECONDS = 1.0
"""Maximum seconds of a first, short comparison, after another rewrite was refused because its
behavior differs.

A rewrite that behaves differently usually differs for most inputs, so a short comparison shows it.
"""
CALLER_SECONDS = 0.4
"""Maximum seconds to compare a function that calls the function with the finding."""
_PROGRAM_SECONDS = 45.0
"""Maximum seconds of the search for one finding of a program, because each rewrite is executed with
the program; a rewrite in progress is completed."""
_MOST_TARGETS = 3
"""Maximum number of functions for which a fix is verified, if several traced functions have the
finding.
"""
_MOST_TRIED = 12
"""Maximum number of rewrites to try for one finding, before combining each with further
rewrites.
"""
_MOST_STEPS = 3
"""Maximum number of rewrites that one fix combines."""
_MOST_SIBLINGS = 8
"""Maximum number of further graph breaks of the same kind that one fix removes."""
_TOGETHER: tuple[Part, ...] = ("first", "paths")
_FURTHER: tuple[Part, ...] = ("second", "forecast")
"""Phases of a trace that verify a fix last: the second call's sizes and the recompile forecast.

A fix must not add constants or recompiles there.
"""


_LONGEST = 300_000
"""Maximum number of characters of a file for which rewrites are tried; longer files take
minutes.
"""


_NO_REWRITE = "No rewrite applies to this code."
_NOT_REPEATED = "A second trace of the file did not show this finding."
_NEEDS_PROGRAM = (
    "No inputs are known for this code, so no fix can be verified: write a probe comment with "
    "inputs above the function, such as `# fullgraph: x=f32[8, 16]`."
)

_T = TypeVar("_T")


class _Beside(Generic[_T]):
    """Work started early because its result may be needed; it is cancelled if it is not needed."""

    def __init__(self, work: Callable[[], Coroutine[object, object, _T]]) -> None:
        self._work = work
        self._task: asyncio.Task[_T] | None = None

    def begin(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    @property
    def task(self) -> asyncio.Task[_T]:
        self.begin()
        assert self._task is not None
        return self._task

    async def result(self) -> _T:
        return await self.task

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _first_refused(*works: _Beside[Any]) -> Refused | None:
    """Wait for all of several works; return early with the refusal of the first that refuses."""
    for done in asyncio.as_completed([work.task for work in works]):
        result = await done
        if isinstance(result, Refused):
            return result
    return None


_Look = tuple[str, tuple[str, ...], tuple[Part, ...]]
"""Key of a trace: source code, names of the traced functions, and phases of the trace."""


class Verifier:
    """Verifies rewrites for the findings of one file, by traces and comparisons in the engine.

    ``request`` describes how the file is traced. ``traced`` is the result of that trace if it was
    traced before. ``times`` collects the seconds of each step. Rewrites are compiled by AOTAutograd
    and Inductor without building C++ code; with ``backend``, the C++ code is built and executed as
    well.
    """

    def __init__(
        self,
        tracer: Tracer,
        request: Analyze,
        *,
        backend: bool = False,
        traced: Traced | None = None,
        times: StepTimes | None = None,
    ) -> None:
        self._tracer = tracer
        self._times = times or StepTimes()
        # The programs that import the file show with which inputs its functions are called.
        self._request = dataclasses.replace(request, callers=request.program.candidates)
        self._traced = traced
        self._compilations: tuple[CompilationMethod, ...] = (
            ("lowered", "inductor") if backend else ("lowered",)
        )
        self._text: Text | None = None
        of_program = None
        if traced is not None and "first" in request.parts:
            of_program = _keep_phases(traced, ("first",))
        self._program_verifier = ProgramVerifier(tracer, request, self._times, of_program)
        self._before: dict[tuple[tuple[str, ...], tuple[Part, ...]], Traced] = {}
        self._slow = True
        """True unless the last full comparison was fast. Then a rewrite that probably differs is
        first compared for a short time.
        """
        self._ahead: dict[_Look, asyncio.Task[Traced]] = {}
        """Traces of the next rewrites, started in case the current rewrite is refused."""

    async def fixes(self, finding: Finding, targets: Sequence[str]) -> Search:
        """Verify the rewrites that may fix a finding, in order, until one is a safe fix; return
        fixes and refused rewrites.

        A rewrite may only replace the graph break by another one. If no rewrite is verified, such
        rewrites are combined with rewrites for the new break. ``targets`` are the functions with
        the finding.
        """
        try:
            return await self._search(finding, targets)
        finally:
            while self._ahead:
                self._ahead.popitem()[1].cancel()

    async def _search(self, finding: Finding, targets: Sequence[str]) -> Search:
        began = time.monotonic()
        if needs_program(finding, self._request):
            return await self._program_verifier.fixes(finding)
        only = self._definition_around(finding) or tuple(targets[:_MOST_TARGETS])
        known = self._text or self._traced
        seen = known.seen if known is not None else ()
        with self._times.measure("candidates"):
            made = await asyncio.to_thread(self._make_candidates, finding, seen)
        separate = self._is_comprehension(finding)
        if not made and not separate:
            return Search(problem=_NO_REWRITE)
        phases = _phases_of_finding(finding)
        before = await self._trace_original(only, phases, ignore_given=bool(finding.calls))
        if before.seen != seen:
            with self._times.measure("candidates"):
                made = await asyncio.to_thread(self._make_candidates, finding, before.seen)
        if before.of_run(finding) is None:
            is_traced = any(report.status == "traced" for report in before.reports)
            if finding.calls and self._request.program.seconds:
                return await self._program_verifier.fixes(finding)
            return Search(problem=_NOT_REPEATED if is_traced else _NEEDS_PROGRAM)
        # Most candidates fail, so the function with the fastest trace is verified first.
        cost = {report.name: report.seconds for report in before.reports}
        only = self._distinct_targets(sorted(only, key=lambda name: cost.get(name, 0.0)))
        siblings = await asyncio.to_thread(self._find_siblings, finding, before)
        if separate:
            # Only another break makes Dynamo trace the comprehension by itself.
            causes = await asyncio.to_thread(self._make_candidates_of_skips, finding, before)
            made = (*causes, *made)
        found: list[Fix] = []
        refused: list[Refused] = []
        suggestions = [one for one in made if one.suggestion]
        made = tuple(one for one in made if not one.suggestion)
        for step in range(_MOST_STEPS + 1):
            tried: list[Refused] = []
            for number, candidate in enumerate(made := made[:_MOST_TRIED]):
                better = candidate.preserves and not candidate.gives_up
                is_late = finding.calls and time.monotonic() - began > _PROGRAM_SECONDS
                if is_late and not candidate.suggestion:
                    break
                if any(map(_is_applicable, found)) and not better:
                    continue
                if (refused or tried) and not found and number + 1 < len(made):
                    # After a candidate has failed, the next one probably fails too, so the trace of
                    # the one after it starts early.
                    self._look_ahead(made[number + 1], phases, only[:1])
                if candidate.returns_tensors and finding.calls:
                    # The function returns tensors now. A run of the whole program shows whether its
                    # callers still compute the same.
                    whole = await self._program_verifier.verify(candidate, finding)
                    if isinstance(whole, Refused):
                        tried.append(whole)
                    else:
                        found.append(whole)
                    continue
                # After a refused rewrite, the next one is compared briefly before it is executed
                # with the program.
                failed = (*refused, *tried)
                hurried = bool(failed and finding.calls) or any(one.differs for one in failed)
                one = await self._try_candidate(
                    candidate,
                    finding,
                    before,
                    phases,
                    only[:1],
                    only[1:],
                    hurried=hurried,
                    likely=not (found or refused or tried),
                    siblings=siblings if step == 0 else (),
                )
                if isinstance(one, Refused):
                    tried.append(one)
                    continue
                found.append(dataclasses.replace(one, seconds=time.monotonic() - began))
                if one.grade == "safe" or (step > 0 and _is_applicable(one)):
                    break
            refused += tried
            if any(fix.grade != "suggestion" for fix in found):
                break
            if step < _MOST_STEPS - 1:
                made = await asyncio.to_thread(_continue_all, tried)
            else:
                made = tuple(suggestions)
        order: list[Grade] = ["safe", "unsafe", "suggestion"]
        found.sort(key=lambda fix: (order.index(fix.grade), bool(fix.pins)))
        return Search(tuple(found), tuple(refused))

    async def together(self, fixes: Sequence[Fix]) -> Fix | None:
        """Combine several fixes into one and verify it.

        Fixes that touch lines of an earlier fix are left out. Return None without fixes, or if some
        of their findings remain.
        """
        chosen = without_overlaps(fixes)
        if len(chosen) < 2:
            return chosen[0] if chosen else None
        ended = tuple(finding for fix in chosen for finding in fix.findings)
        edits = sorted((edit for fix in chosen for edit in fix.edits), key=lambda edit: edit.range)
        candidate = Candidate(
            "together",
            f"Apply {len(chosen)} safe fixes",
            apply_edits(self._request.text, edits),
            preserves=all(fix.candidate.preserves for fix in chosen),
        )
        only = tuple(dict.fromkeys(finding.target for finding in ended))
        before = await self._trace_original(only, _TOGETHER)
        fix = await self._try_candidate(candidate, ended[0], before, _TOGETHER, only)
        if isinstance(fix, Refused):
            return None
        gone = all(any(same(one, each) for one in fix.findings) for each in ended)
        return fix if gone else None

    async def compare(self, changed: str, target: str) -> tuple[Compared, ...]:
        """Compare the behavior of the function ``target`` in the original file and in ``changed``,
        a version that the user or another program has edited.

        The first comparison is in eager mode. If it finds no difference, compiled code is compared
        with the inputs that it chose.
        """
        eager = await self._compare_once(changed, target, COMPARE_SECONDS)
        compared = [eager]
        for method in self._compilations if eager.outcome != "differs" else ():
            if any(eager.packed_cases):
                compared.append(await self._compile_once(changed, target, method, eager))
        return tuple(compared)

    def _make_candidates(
        self, finding: Finding, seen: tuple[SeenValue, ...]
    ) -> tuple[Candidate, ...]:
        """Return the candidates for a finding. ``seen`` are the kinds of values that the trace of
        the original saw; empty if it was not traced yet."""
        if len(self._request.text) > _LONGEST:
            return ()
        if self._text is None or self._text.seen != seen:
            try:
                self._text = Text(self._request.text, seen)
            except Unparsable:
                return ()
        return candidates(self._text, finding)

    def _definition_around(self, finding: Finding) -> tuple[str, ...]:
        """Return the name of the function or class around a finding that a program showed; empty
        for other findings.

        The finding itself names the compiled function, which may be in another file.
        """
        if not finding.calls or not self._request.callers:
            return ()
        line = finding.range.start.line + 1
        try:
            body = parse_quietly(self._request.text).body
        except SyntaxError:
            return ()
        kinds = (ast.FunctionDef, ast.ClassDef)
        around = [one for one in body if one.lineno <= line <= (one.end_lineno or 0)]
        return tuple(one.name for one in around if isinstance(one, kinds))

    def _is_comprehension(self, finding: Finding) -> bool:
        """Whether Dynamo cannot read the iterator of a comprehension that it traces by itself."""
        evidence = finding.evidence
        return (
            isinstance(evidence, BreakEvidence)
            and evidence.title == MISSING_NEXT
            and self._text is not None
            and isinstance(Site(self._text, finding).expression, cst.BaseComp)
        )

    def _make_candidates_of_skips(self, finding: Finding, before: Traced) -> tuple[Candidate, ...]:
        """Return the candidates for the breaks that make Dynamo skip the function around a finding.

        ``before`` is the trace of the original.
        """
        assert self._text is not None
        function = Site(self._text, finding).function
        found: dict[str, Candidate] = {}
        for one in before.findings:
            if getattr(one.evidence, "outcome", "") not in ("frame-skipped", "rest-skipped"):
                continue
            if one.range != finding.range and Site(self._text, one).function is function:
                found.update((made.text, made) for made in candidates(self._text, one))
        return tuple(found.values())

    def _find_siblings(self, finding: Finding, before: Traced) -> tuple[Finding, ...]:
        """Return the other graph breaks of the same kind in the function with a finding.

        ``before`` is the trace of the original.
        """
        alike = (
            one
            for one in before.findings
            if finding.code.startswith("graph-break/")
            and is_alike(one, finding)
            and one.range != finding.range
        )
        places = list({one.range: one for one in alike}.values())[:_MOST_SIBLINGS]
        if not places or self._text is None:
            return ()
        function = Site(self._text, finding).function
        return tuple(one for one in places if Site(self._text, one).function is function)

    async def _try_candidate(
        self,
        candidate: Candidate,
        finding: Finding,
        before: Traced,
        phases: tuple[Part, ...],
        targets: tuple[str, ...],
        others: tuple[str, ...] = (),
        *,
        hurried: bool = False,
        likely: bool = False,
        siblings: tuple[Finding, ...] = (),
    ) -> Fix | Refused:
        """Trace one rewrite, compare its behavior with the original, and grade or refuse it.

        If the rewrite removes the finding, it is applied at ``siblings`` as well, other findings of
        the same kind, if that passes the same verification.

        ``before`` is the trace of the original. ``phases`` of the trace show the finding.
        ``others`` are functions that call ``targets``; they are compared with fewer inputs. With
        ``hurried``, the rewrite is first compared for a short time. With ``likely``, the slow last
        phases start immediately.
        """
        phases = _phases_of(candidate, phases)
        looking = _Beside(
            functools.partial(self._judge_further, candidate, finding, targets, phases)
        )
        with contextlib.ExitStack() as begun:
            begun.callback(looking.cancel)
            if likely and not siblings:
                looking.begin()
            after = await self._trace_changed(candidate.text, targets, phases)
            shown = await self._judge_change(candidate, finding, before.of(targets), after, phases)
            if isinstance(shown, Refused):
                return shown
            whole = candidate
            if siblings and not candidate.suggestion:
                assert self._text is not None
                whole = await asyncio.to_thread(extend_to_findings, self._text, candidate, siblings)
            if whole.text != candidate.text:
                fix = await self._try_candidate(
                    whole, finding, before, phases, targets, others, hurried=hurried, likely=True
                )
                may_be_safe = candidate.preserves and not candidate.gives_up
                grades = ("safe",) if may_be_safe else ("safe", "unsafe")
                if isinstance(fix, Fix) and fix.grade in grades and _removes_more(fix, shown):
                    return fix
            runs_program = bool(finding.calls) and not candidate.suggestion
            if runs_program and hurried:
                brief = await self._compare_targets(candidate, targets, QUICK_SECONDS)
                if isinstance(brief, Refused):
                    return brief
            times = None
            if candidate.compiles_faster:
                times = _compile_times(before.of(targets), after)
            if candidate.compiles_faster and not is_faster(times):
                return Refused(candidate, slow_words(times))

            async def run_program() -> Refused | None:
                # The function may break the graph in its callers now.
                if not runs_program:
                    return None
                return await self._program_verifier.find_objection(candidate, finding)

            async def compare_and_compile() -> tuple[list[Compared], str] | Refused:
                compared = await self._compare_targets(
                    candidate, targets, COMPARE_SECONDS, quick=hurried and not runs_program
                )
                if isinstance(compared, Refused):
                    return compared
                doubt = await self._compile_targets(candidate, targets, tuple(compared))
                return doubt if isinstance(doubt, Refused) else (compared, doubt)

            async def called_by_others() -> tuple[Judgment, list[Compared]] | Refused:
                if not others:
                    return shown, []
                all_of = after.joined(await self._trace_changed(candidate.text, others, phases))
                both = before.of((*targets, *others))
                of_all = await self._judge_change(candidate, finding, both, all_of, phases)
                if isinstance(of_all, Refused):
                    return of_all
                found = await self._compare_targets(
                    candidate, others, CALLER_SECONDS, covering=False
                )
                return found if isinstance(found, Refused) else (of_all, found)

            program, comparing = _Beside(run_program), _Beside(compare_and_compile)
            calling = _Beside(called_by_others)
            for work in (program, comparing, calling):
                begun.callback(work.cancel)
            program.begin()
            comparing.begin()
            if not hurried and not candidate.suggestion:
                # The last phases are traced in parallel with the comparison, because most
                # candidates pass it.
                looking.begin()
                calling.begin()
            refused = await _first_refused(program, comparing)
            if refused is not None:
                return refused
            called, outcome = await calling.result(), await comparing.result()
            if isinstance(called, Refused):
                return called
            assert not isinstance(outcome, Refused)
            compared, uncompiled = outcome
            further = await looking.result()
        if further.problem or not self._only_guards(further, finding, candidate):
            return Refused(candidate, further.why)
        judgment, compared = called[0], [*compared, *called[1]]
        pins = (*judgment.appeared, *further.appeared)
        grade, doubt = _grade_candidate(candidate, compared)
        if pins and grade != "suggestion":
            grade, doubt = "unsafe", f"The fix compiles code that has a guard: {pins[0].message}."
        if uncompiled and grade == "safe":
            grade, doubt = "unsafe", uncompiled
        ended = (finding, *(one for one in judgment.ended if not same(one, finding)))
        edits = edits_between(self._request.text, candidate.text)
        kept = tuple(dataclasses.replace(one, packed_cases=()) for one in compared)
        return Fix(candidate, grade, ended, edits, judgment, kept, 0.0, doubt, pins, times)

    async def _judge_change(
        self,
        candidate: Candidate,
        finding: Finding,
        before: Traced,
        after: Traced,
        phases: tuple[Part, ...],
    ) -> Judgment | Refused:
        """Compare the findings of a rewritten file with the findings of the original.

        ``before`` and ``after`` are their traces. ``phases`` are the phases of the trace (such as
        "paths") that were run for the rewrite. A phase that was not run for the original, such as
        the slow `torch.export`, is only run if it may show that the original has the same findings.
        """
        lacking = _missing_kernel(after)
        judgment = judge_rewrite(before, after, finding)
        excused = not lacking or ".library" in self._request.text
        if judgment.appeared and excused and phases != _phases_of_finding(finding):
            names = tuple(dict.fromkeys(one.name for one in before.reports))
            judgment = judge_rewrite(await self._trace_original(names, phases), after, finding)
        guarded = judgment.gone and self._only_guards(judgment, finding, candidate)
        if judgment.better or guarded:
            return judgment
        return Refused(candidate, judgment.why, judgment.instead or lacking)

    def _only_guards(self, judgment: Judgment, finding: Finding, candidate: Candidate) -> bool:
        """Whether a rewrite only adds findings about guards, in code that it moves into one graph.

        Such findings are sizes that become constants, and state that changes for the next call.
        """
        before, after = self._request.text.split("\n"), candidate.text.split("\n")
        # Code under ``torch.compiler.disable`` was not compiled before, so all its guards are new.
        whole = "disable" not in getattr(finding.evidence, "title", "")
        for one in judgment.appeared:
            line = one.range.start.line
            kept = line < len(after) and after[line] in before
            changing = one.code == "guard/mutated" or one.code.startswith("recompile")
            eager = whole and (kept or candidate.compiles_more)
            pins = one.code == "guard/specialized-dimension"
            if not (pins or (changing and eager)):
                return False
        return not judgment.appeared or finding.code.startswith(("graph-break", "frame-skipped"))

    async def _judge_further(
        self,
        candidate: Candidate,
        finding: Finding,
        targets: tuple[str, ...],
        phases: tuple[Part, ...],
    ) -> Judgment:
        """Trace the rewritten code in the phases that were left for last, and compare the findings.

        ``targets`` are the traced functions. The original is only traced if the rewritten code has
        findings that the original may have as well. This saves time, because its trace takes as
        long as all other verification.
        """
        rest = tuple(phase for phase in _FURTHER if phase not in phases)
        after = await self._trace_changed(candidate.text, targets, rest)
        before = Traced(self._request.text)
        if after.speaks_against:
            before = await self._trace_original(targets, rest)
        return judge_rewrite(before, after, finding)

    def _look_ahead(
        self, candidate: Candidate, phases: tuple[Part, ...], targets: tuple[str, ...]
    ) -> None:
        text, phases = candidate.text, _phases_of(candidate, phases)
        looking = trace_file(self._tracer, self._trace_request(targets, phases, text))
        self._ahead[text, targets, phases] = asyncio.create_task(looking)

    async def _trace_changed(
        self, text: str, targets: tuple[str, ...], phases: tuple[Part, ...]
    ) -> Traced:
        """Return the trace of the functions ``targets`` in the rewritten code ``text``.

        If the trace was started in advance, wait for it.
        """
        ahead = self._ahead.pop((text, targets, phases), None)
        with self._times.measure("retrace"):
            if ahead is not None:
                return await ahead
            return await trace_file(self._tracer, self._trace_request(targets, phases, text))

    async def _trace_original(
        self, only: tuple[str, ...], phases: tuple[Part, ...], *, ignore_given: bool = False
    ) -> Traced:
        """Trace the functions ``only`` in the original code, in the phases ``phases``; return the
        results.

        A second trace of the same functions and phases returns the first results. With
        ``ignore_given``, the argument ``traced`` of the constructor, which has the results of a
        program's run, is not used.
        """
        given = self._traced if not ignore_given else None
        if given is not None and phases == self._request.parts:
            return given.of(only)
        if given is not None and "backend" in phases and "backend" in self._request.parts:
            # Compiling takes long, so a trace with further phases is reused; their findings are
            # dropped.
            return _keep_phases(given.of(only), phases)
        trace = self._before.get((only, phases))
        if trace is None:
            with self._times.measure("trace"):
                trace = await trace_file(
                    self._tracer, self._trace_request(only, phases, self._request.text)
                )
            self._before[only, phases] = trace
        return trace

    def _last_probe(self, target: str) -> int:
        """Return the number of the last set of example inputs with which the original traced a
        function.
        """
        numbers = (one.probe_number for one in self._reports if one.name == target)
        return max(numbers, default=0)

    def _distinct_targets(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Return the functions without those whose inputs are the same as the inputs of an earlier
        one in ``targets``.

        A function with several sets of example inputs is never left out.
        """
        calls = {name: name for name in targets}
        for one in self._reports:
            if one.probe is not None and one.name in calls and one.probe.same_as:
                calls[one.name] = one.probe.same_as
        return tuple(
            name
            for at, name in enumerate(targets)
            if self._last_probe(name) or calls[name] not in [calls[one] for one in targets[:at]]
        )

    @property
    def _reports(self) -> Iterator[TargetReport]:
        """Yield the reports on functions from all traces of the original so far."""
        given = (self._traced,) if self._traced is not None else ()
        return (one for each in (*given, *self._before.values()) for one in each.reports)

    def _trace_request(self, only: tuple[str, ...], phases: tuple[Part, ...], text: str) -> Analyze:
        generation = text_hash(text)
        limits, took = self._request.limits, max((one.seconds for one in self._reports), default=0)
        seconds = min(limits.seconds, LOOK_SECONDS + 10 * took)
        real = (one.name for one in self._reports if one.mode == "real")
        return dataclasses.replace(
            self._request,
            limits=dataclasses.replace(limits, seconds=seconds, stretch=BUSY_STRETCH),
            text=text,
            generation=generation,
            only=only,
            parts=phases,
            documents=(),
            real=tuple(dict.fromkeys((*self._request.real, *real))),
            forecast_rows=False,
            tentative=text != self._request.text,
        )

    async def _compare_targets(
        self,
        candidate: Candidate,
        targets: tuple[str, ...],
        seconds: float,
        *,
        quick: bool = False,
        covering: bool = True,
    ) -> list[Compared] | Refused:
        """Compare the behavior of the rewritten and the original code, for each of the functions
        ``targets``.

        Return the comparisons, or the refusal at the first difference. A suggestion is not
        compared: a person has to check it anyway. ``seconds`` is the time limit. With ``quick``, a
        rewrite that probably differs is first compared for a short time.
        """
        found: list[Compared] = []
        changed = candidate.text
        covering = covering and not (candidate.is_same_eagerly or candidate.keeps_branches)
        for target in () if candidate.suggestion else targets:
            one = None
            if quick and self._slow:
                one = await self._compare_once(changed, target, QUICK_SECONDS)
            if one is None or one.outcome != "differs" or _may_differ(candidate, one):
                one = await self._compare_once(changed, target, seconds, covering=covering)
                self._slow = one.seconds > COMPARE_SECONDS
            if one.outcome == "differs" and not _may_differ(candidate, one):
                return Refused(candidate, one.reason, differs=True)
            found.append(one)
        return found

    async def _compile_targets(
        self, candidate: Candidate, targets: tuple[str, ...], compared: tuple[Compared, ...]
    ) -> str | Refused:
        """Compile the functions ``targets`` of the rewritten code and compare results and gradients
        with eager calls.

        ``compared`` are the comparisons in eager mode, whose inputs are used again. If only the
        rewritten code fails, return the refusal. Otherwise return a sentence about code that could
        not be compiled, or "".
        """
        doubt = ""
        # Suggestions were not compared, so ``compared`` may be shorter.
        pairs = zip(targets, compared, strict=False)
        for (target, eager), method in itertools.product(pairs, self._compilations):
            if not any(eager.packed_cases):
                continue
            one = await self._compile_once(candidate.text, target, method, eager)
            if one.outcome == "differs":
                return Refused(candidate, one.reason)
            doubt = doubt or one.reason
        return doubt

    async def _compile_once(
        self, changed: str, target: str, method: CompilationMethod, eager: Compared
    ) -> Compared:
        """Compile the function ``target`` of the changed code with ``method``, and compare it with
        eager calls.

        The inputs are the inputs of the comparison ``eager``.
        """
        seconds, cases = COMPILE_SECONDS[method], eager.packed_cases
        return await self._compare_once(changed, target, seconds, compiled_by=method, cases=cases)

    async def _compare_once(
        self,
        changed: str,
        target: str,
        seconds: float,
        *,
        compiled_by: CompilationMethod | None = None,
        cases: tuple[str, ...] = (),
        covering: bool = True,
    ) -> Compared:
        limits = dataclasses.replace(self._request.limits, stretch=BUSY_STRETCH)
        request = Compare(
            request=0,
            analyze=dataclasses.replace(self._request, limits=limits),
            target=target,
            changed=changed,
            seconds=seconds,
            compiled_by=compiled_by,
            cases=cases,
            covering=covering,
            last_probe=self._last_probe(target),
        )
        last = Compared(0, "unverified", reason="The engine did not answer.")
        with self._times.measure("compile" if compiled_by else "compare"):
            async for event in events(self._tracer.compare(request)):
                if isinstance(event, Compared):
                    last = event
        return last


def _compile_times(before: Traced, after: Traced) -> CompileTimes | None:
    """Return the compile times of two versions of the same functions; None if one of them was not
    compiled completely.
    """
    seconds: list[float] = []
    for traced in (before, after):
        made = [report.compilation for report in traced.reports]
        if not made or not all(one is not None and one.status == "compiled" for one in made):
            return None
        seconds.append(sum(one.processor_seconds for one in made if one is not None))
    return CompileTimes(*seconds)


def _keep_phases(traced: Traced, phases: tuple[Part, ...]) -> Traced:
    """Return a trace with the findings of some phases only."""
    findings = tuple(one for one in traced.findings if set(_phases_of_finding(one)) <= set(phases))
    return dataclasses.replace(traced, findings=findings)


def _phases_of(candidate: Candidate, phases: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the phases of the trace (such as "paths" or "forecast") that verify a rewrite.

    They are ``phases``, which show the finding, and the phases that the candidate requires.
    """
    return tuple(dict.fromkeys((*phases, *candidate.phases)))


def _removes_more(fix: Fix, judgment: Judgment) -> bool:
    """Whether a fix removes more findings than a rewrite with the given judgment."""
    return len(fix.judgment.ended) > len(judgment.ended)


def _is_applicable(fix: Fix) -> bool:
    """Whether a fix is graded safe or unsafe (not a suggestion), and does not add guards."""
    return fix.grade != "suggestion" and not fix.pins


def _continue_all(refused: Sequence[Refused]) -> tuple[Candidate, ...]:
    """Return the candidates that continue refused rewrites, except suggestions, each text once."""
    ordered = (one for one in sorted(refused, key=_changes_needed) if not one.candidate.suggestion)
    further = (each for one in ordered for each in continue_refused(one))
    return tuple({each.text: each for each in further}.values())


def _changes_needed(refused: Refused) -> int:
    """Return the order in which refused rewrites are continued: first where few changes are
    needed."""
    if any(map(undecided_condition, refused.instead)):
        return 0
    # The only fault of an operator without a fake kernel is the missing kernel.
    return 1 if any(isinstance(one.evidence, ExportEvidence) for one in refused.instead) else 2


_EMPTY_OR_ONE = re.compile(r"\[(?:[^\]]*, )?[01](?:, [^\]]*)?\]")
"""Pattern of a tensor in probe notation with a dimension of size 0 or 1, such as ``[0, 4]``."""
_SIZES = re.compile(r"\[[\d, ]*\]")


def _may_differ(candidate: Candidate, compared: Compared) -> bool:
    """Whether a rewrite declares that its behavior may differ in the ways that ``compared`` found.

    It declares this in fields such as ``loses`` and ``extends``.
    """
    if candidate.suggestion:
        return True
    lost = set(candidate.loses)
    given = [case for case in compared.cases if case.values == "given"]
    first = given[0].inputs if given else ""
    cases = [case for case in compared.cases if not (case.same or set(case.aspects) <= lost)]
    if compared.aspects and set(compared.aspects) <= lost:
        return True
    if not given or not cases:
        return False  # no comparison was completed
    for case in cases:
        odd = _is_odd(case.inputs, first)
        extended = candidate.extends and (odd or case.outcome != "returned")
        odd = odd or _do_not_fit(case.inputs, first)
        fits = candidate.computes_more and odd and set(case.aspects) <= {"outcome", *lost}
        # The original computes only one of the branches. The other branch has another dtype, or is
        # not defined for these numbers: a logarithm of negative numbers has the gradient NaN.
        dtype = case.conditions.startswith("dtype")
        other = candidate.computes_more and (dtype or case.outside)
        restricted = candidate.restricts and case is not compared.cases[0]
        if restricted and set(case.aspects) <= {"outcome", *lost}:
            continue
        if not (extended or fits or (other and set(case.aspects) <= {*_OF_A_DTYPE, *lost})):
            return False
    return True


def _is_odd(inputs: str, given: str) -> bool:
    """Whether ``inputs`` contain a size of 0 or 1 that the user's inputs ``given`` do not contain.

    Both are texts of probe comments, such as ``f32[0, 4]``.
    """
    return bool(set(_EMPTY_OR_ONE.findall(inputs)) - set(_EMPTY_OR_ONE.findall(given)))


def _do_not_fit(inputs: str, given: str) -> bool:
    """Whether ``inputs`` have other sizes than the user's inputs ``given`` in some tensors but not
    in all, so that shapes may not match.

    Both are texts of probe comments, such as ``f32[3, 4]``.
    """
    pairs = list(zip(_SIZES.findall(inputs), _SIZES.findall(given), strict=False))
    return len({one == other for one, other in pairs}) == 2


_OF_A_DTYPE = ("outcome", "result", "gradient", "state", "input")
"""Aspects of behavior that may differ if code computes with another dtype."""


def _phases_of_finding(finding: Finding) -> tuple[Part, ...]:
    """Return the phases of the trace (such as "paths" or "forecast") that show a finding.

    The phase "first" is always included, because it shows whether functions fail.
    """
    if finding.path is not None:
        return "first", "paths"
    phase = finding.run.part if finding.run is not None else "first"
    return ("first",) if phase == "first" else ("first", phase)


def _grade_candidate(candidate: Candidate, compared: Sequence[Compared]) -> tuple[Grade, str]:
    """Return the grade of a rewrite that passed all comparisons, and why it is not better.

    ``compared`` are the comparisons. The reason is a sentence; empty for the grade "safe".
    """
    doubts = [one.reason for one in compared if one.outcome == "unverified"]
    differs = [one.reason for one in compared if one.outcome == "differs"]
    if candidate.suggestion or doubts:
        return "suggestion", (*doubts, *differs, candidate.gives_up)[0]
    if candidate.returns_tensors:
        return "suggestion", candidate.gives_up
    if candidate.restricts and any(map(_is_refused, compared)):
        return "suggestion", f"Some inputs that were tried do not satisfy the check. {differs[0]}"
    if candidate.restricts:
        return "unsafe", candidate.gives_up
    if differs and (candidate.extends or candidate.computes_more):
        return "unsafe", f"The new code behaves differently for some inputs: {differs[0]}"
    if differs:
        return "unsafe", differs[0]
    if candidate.gives_up:
        return "unsafe", candidate.gives_up
    if any(one.other_settings for one in compared):
        return (
            "unsafe",
            "Other values of the object's attributes, which lead to other branches, were not "
            "tried.",
        )
    if not candidate.preserves:
        return (
            "unsafe",
            "The new code behaves the same for the tried inputs; other inputs may differ.",
        )
    if not all(one.exact for one in compared):
        return "unsafe", "The results differ from the original results by rounding."
    return "safe", ""


def _missing_kernel(after: Traced) -> tuple[Finding, ...]:
    """Return the finding that a new custom operator does not have a fake kernel, as a tuple; empty
    without one.

    It contains the recorded calls of the operator.
    """
    for one in after.findings:
        if isinstance(one.evidence, ExportEvidence) and one.evidence.calls:
            return (one,)
    return ()


def _is_refused(compared: Compared) -> bool:
    """Whether the rewritten code raises an exception for an input that the original accepts."""
    return any(not one.same and one.outcome == "returned" for one in compared.cases)


def without_overlaps(fixes: Sequence[Fix]) -> list[Fix]:
    """Return the fixes that do not touch lines of an earlier fix in the list."""
    chosen: list[Fix] = []
    taken: set[int] = set()
    for fix in fixes:
        lines = {
            line
            for edit in fix.edits
            for line in range(edit.range.start.line, edit.range.end.line + 1)
        }
        if taken.isdisjoint(lines):
            chosen.append(fix)
            taken |= lines
    return chosen
