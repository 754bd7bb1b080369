"""Verify rewrites of a program by running it.

The original and the rewritten program must compute the same values, and the finding must disappear.
The engine also calls each function that the program compiles many more times, with inputs of other
sizes and numbers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fullgraph.domain.phrases import amount
from fullgraph.domain.positions import text_hash
from fullgraph.fixes.candidate import Candidate, edits_between
from fullgraph.fixes.catalogue import candidates_in, continue_refused
from fullgraph.fixes.outcomes import (
    CompileTimes,
    Fix,
    Refused,
    Search,
    is_faster,
    slow_words,
)
from fullgraph.fixes.program_values import compare_values
from fullgraph.fixes.step_times import StepTimes
from fullgraph.fixes.tracing import (
    BUSY_STRETCH,
    Judgment,
    Traced,
    Tracer,
    events,
    is_serious,
    judge_rewrite,
    same,
)
from fullgraph.results import Results
from fullgraph_engine.protocol import (
    Analyze,
    Compared,
    ComparedCase,
    CompilerCheck,
    Finding,
    ProgramObserved,
    SeenValue,
)
from fullgraph_engine.protocol.evidence import OperatorEvidence

FURTHER_CALLS = 100
"""Number of extra calls of each compiled function, with other sizes and numbers, to verify that a
rewrite ends a recompile.
"""
_CALLS_FOR_BREAKS = 12
"""Number of extra calls to verify that a rewrite ends a finding of another kind."""
_FIRST_CALLS = 3
"""Number of extra calls in the first run with a rewrite."""
_MOST_TRIED = 16
"""Maximum number of rewrites of a program to run for one finding."""
_MOST_OTHERS = 3
"""Maximum number of other recompiles whose rewrites are combined with a fix."""
_MOST_COMBINED = 8
"""Maximum number of combinations of rewrites to run for one fix."""
_MOST_CONTINUED = 3
"""Maximum number of rewrites that continue one refused combination."""
_SECONDS = 90.0
"""Maximum wall time in seconds for the search for one finding of a program; a run in progress is
completed."""

_SIZE = re.compile(r"[\w.\[\]]+\.shape\[\d+\]")
_NO_REWRITE = "No rewrite applies to this code."
_AS_MANY_RECOMPILES = "It does not end further recompiles."
_NOT_REPEATED = "A second run of the program did not show this finding."


def needs_program(finding: Finding, request: Analyze) -> bool:
    """Whether a finding depends on the order of a program's calls, so that only a run of the
    program can verify a fix."""
    may_run = request.program.seconds > 0 and "first" in request.parts
    of_calls = ("recompile", "backend")
    return may_run and bool(finding.calls) and finding.code.startswith(of_calls)


@dataclass(frozen=True)
class _Run:
    """One run of a program: its findings and reports, and the values that it computed."""

    traced: Traced
    observed: ProgramObserved | None

    @property
    def recompiles(self) -> int:
        """Number of recompiles in all files of the program."""
        if self.observed is not None:
            return self.observed.recompiles
        return sum(one.recompiles or 0 for one in self.traced.reports if one.region is not None)

    @property
    def graphs(self) -> int:
        """Number of graphs in all files of the program."""
        if self.observed is not None:
            return self.observed.graphs
        return sum(one.graphs or 0 for one in self.traced.reports if one.region is not None)

    @property
    def breaks(self) -> int:
        """Number of graph breaks in all files of the program."""
        return self.observed.breaks if self.observed is not None else 0

    @property
    def error(self) -> str:
        """Type and message of the exception that ended the program, or ""."""
        return self.observed.error if self.observed is not None else ""

    @property
    def is_cut_off(self) -> bool:
        """Whether the program was stopped at a limit, so that what it would have done is
        unknown."""
        return self.observed is None or self.observed.how in ("time", "killed")


class ProgramVerifier:
    """Verifies rewrites of a program by running the rewritten program.

    ``request`` describes how the file is traced and executed; ``times`` collects the seconds of
    each step. ``traced`` has the results of executing the original program; None if it was not
    executed.
    """

    def __init__(
        self,
        tracer: Tracer,
        request: Analyze,
        times: StepTimes,
        traced: Traced | None = None,
    ) -> None:
        self._tracer, self._request, self._times = tracer, request, times
        self._runs: dict[tuple[str, CompilerCheck, int, tuple[str, ...]], _Run] = {}
        """Runs by the arguments of :meth:`_run`. Several findings often get the same rewrite."""
        self._seen: tuple[SeenValue, ...] = ()
        """Kinds of values that the known trace of the original program saw."""
        if traced is not None:
            self._runs[request.text, "off", 0, ()] = _Run(traced, None)
            self._seen = traced.seen

    async def fixes(self, finding: Finding) -> Search:
        """Verify the rewrites that may fix a finding, in order, up to the first that passes.

        Return this fix, if any, and the refused rewrites.
        """
        began = time.monotonic()
        with self._times.measure("candidates"):
            made = await asyncio.to_thread(candidates_in, self._request.text, finding, self._seen)
        if not made:
            return Search(problem=_NO_REWRITE)
        before = await self._run_original(finding, _further_calls(finding))
        if not any(_cause(one) == _cause(finding) for one in before.traced.findings):
            return Search(problem=before.traced.problem or _NOT_REPEATED)
        if before.traced.seen != self._seen:
            with self._times.measure("candidates"):
                made = await asyncio.to_thread(
                    candidates_in, self._request.text, finding, before.traced.seen
                )
        refused: list[Refused] = []
        suggested: list[Fix] = []
        left = list(made)
        seen = {one.text for one in left}
        for _ in range(_MOST_TRIED):
            if not left or time.monotonic() - began > _SECONDS:
                break
            candidate = left.pop(0)
            if candidate.suggestion:
                continue
            one, after = await self._try_candidate(candidate, finding, before)
            if isinstance(one, Refused):
                refused.append(one)
                further = await asyncio.to_thread(continue_refused, one, after.traced.seen)
                left += [each for each in further if each.text not in seen]
                seen.update(each.text for each in further)
                continue
            if one.grade == "unsafe":
                if finding.code.startswith("recompile"):
                    one = await self._end_others(one, finding, before, after, began)
                fix = replace(one, seconds=time.monotonic() - began)
                return Search((fix,), tuple(refused))
            suggested.append(replace(one, seconds=time.monotonic() - began))
        return Search(tuple(suggested), tuple(refused))

    async def _end_others(
        self, fix: Fix, finding: Finding, before: _Run, after: _Run, began: float
    ) -> Fix:
        """Return a fix that combines ``fix`` with rewrites for the recompiles that the program
        still has, if that ends all of them; else ``fix``.

        ``after`` is the run with ``fix``. The search stops a maximum time after ``began``.
        """
        current, run, tried = fix, after, 0
        while others := _recompiles_in(run):
            if len(others) > _MOST_COMBINED:
                return fix
            made = {
                one.text: current.candidate.then(one)
                for other in others[:_MOST_OTHERS]
                for one in await asyncio.to_thread(
                    candidates_in, run.traced.text, other, run.traced.seen
                )
                if not one.suggestion
            }
            candidates = list(made.values())
            while candidates:
                if tried >= _MOST_COMBINED or time.monotonic() - began > _SECONDS:
                    return fix
                tried += 1
                candidate = candidates.pop(0)
                one, further = await self._try_candidate(
                    candidate, finding, before, most_recompiles=len(others) - 1
                )
                if isinstance(one, Fix) and one.grade == "unsafe":
                    current, run = one, further
                    break
                if isinstance(one, Refused) and candidate.text in made:
                    continued = await asyncio.to_thread(continue_refused, one, further.traced.seen)
                    candidates[:0] = continued[:_MOST_CONTINUED]
            else:
                return fix
        return current

    async def verify(self, candidate: Candidate, finding: Finding) -> Fix | Refused:
        """Verify one rewrite of the program for a finding."""
        before = await self._run_original(finding, _further_calls(finding))
        return (await self._try_candidate(candidate, finding, before))[0]

    async def find_objection(self, candidate: Candidate, finding: Finding) -> Refused | None:
        """Run the program with a rewrite that was verified without it.

        Return the refusal if the program fails or has a new finding in the file; else None. The run
        makes no further calls, so its results are reused when the fixed file is traced.
        """
        before = await self._run_original(finding, 0)
        with self._times.measure("retrace"):
            after = await self._run(candidate.text, self._compiler_for(finding), 0)
        judgment = _judge_run(before, after, finding, candidate.left_out)
        if not (judgment.problem or judgment.appeared):
            return None
        return Refused(candidate, judgment.why, judgment.instead)

    async def _run_original(self, finding: Finding, calls: int) -> _Run:
        with self._times.measure("trace"):
            return await self._run(self._request.text, self._compiler_for(finding), calls)

    def _compiler_for(self, finding: Finding) -> CompilerCheck:
        """Return the compiler to run the program with, so that the finding can occur again.

        Findings about compilers need the compiler of the request; other findings do not need a
        compiler ("off").
        """
        return self._request.compiler if finding.code.startswith("backend") else "off"

    async def _run(
        self,
        text: str,
        compiler: CompilerCheck,
        further_calls: int,
        observed_modules: tuple[str, ...] = (),
    ) -> _Run:
        """Run a version of the program; return its findings and the values that it computed.

        ``text`` is the source code of the version. ``compiler`` is the compiler for its graphs.
        Compiled functions are also called up to ``further_calls`` times with inputs of other sizes
        and numbers. ``observed_modules`` are classes whose results are recorded although this
        version compiles only parts of them. A repeated run returns the first results.
        """
        key = text, compiler, further_calls, observed_modules
        if key not in self._runs:
            self._runs[key] = await self._execute(*key)
        return self._runs[key]

    async def _execute(
        self,
        text: str,
        compiler: CompilerCheck,
        further_calls: int,
        observed_modules: tuple[str, ...],
    ) -> _Run:
        program = replace(
            self._request.program,
            further_calls=further_calls,
            uncompiled=False,
            compiler=compiler,
            observed_modules=observed_modules,
        )
        request = replace(
            self._request,
            text=text,
            generation=text_hash(text),
            parts=("first",),
            only=(),
            without=(),
            documents=(),
            program=program,
            limits=replace(self._request.limits, stretch=BUSY_STRETCH),
            tentative=text != self._request.text,
        )
        results, observed = Results(), None
        results.begin_run()
        async for event in events(self._tracer.analyze(request)):
            results.apply_event(event)
            if isinstance(event, ProgramObserved):
                observed = event
        results.complete_run()
        return _Run(Traced.from_results(text, results), observed)

    async def _try_candidate(
        self,
        candidate: Candidate,
        finding: Finding,
        before: _Run,
        *,
        most_recompiles: int | None = None,
    ) -> tuple[Fix | Refused, _Run]:
        """Run the program with a rewrite; return the outcome and the run.

        Most rewrites do not end a recompile, which a run with few further calls shows in a fraction
        of the time, so that run is the first. A rewrite that leaves more than ``most_recompiles``
        findings of recompiles is refused.
        """
        observed = (finding.target,) if candidate.uncompiles_target else ()
        compiler, calls = self._compiler_for(finding), _further_calls(finding)
        for number in (_FIRST_CALLS, calls) if calls == FURTHER_CALLS else (calls,):
            with self._times.measure("retrace"):
                after = await self._run(candidate.text, compiler, number, observed)
            judgment = _judge_run(before, after, finding, candidate.left_out)
            if not judgment.better:
                return Refused(candidate, judgment.why, _instead(judgment, after)), after
            remaining = _recompiles_in(after)
            if most_recompiles is not None and len(remaining) > most_recompiles:
                return Refused(candidate, _AS_MANY_RECOMPILES, (remaining[0],)), after
        compared = _compare_runs(candidate, before, after)
        if compared.outcome == "differs":
            return Refused(candidate, compared.reason, differs=True), after
        doubt = candidate.gives_up or (
            "The fix was verified with the calls of the program, and "
            f"{amount(len(compared.cases), 'further call')} with other sizes and values."
        )
        times = _compile_times(before, after) if candidate.compiles_faster else None
        if candidate.compiles_faster and not is_faster(times):
            return Refused(candidate, slow_words(times)), after
        unverified = compared.outcome == "unverified"
        fix = Fix(
            candidate,
            "suggestion" if unverified else "unsafe",
            (finding, *(one for one in judgment.ended if not same(one, finding))),
            edits_between(self._request.text, candidate.text),
            judgment,
            (compared,),
            doubt=compared.reason if unverified else doubt,
            compile_times=times,
        )
        return fix, after


def _further_calls(finding: Finding) -> int:
    """Return the number of extra calls of each compiled function to verify a rewrite."""
    return FURTHER_CALLS if finding.code.startswith("recompile") else _CALLS_FOR_BREAKS


def _compile_times(before: _Run, after: _Run) -> CompileTimes | None:
    """Return the compile times of two versions of a program; None if one was not compiled."""
    if before.observed is None or after.observed is None:
        return None
    seconds = before.observed.compile_seconds, after.observed.compile_seconds
    return CompileTimes(*seconds) if all(seconds) else None


def _recompiles_in(run: _Run) -> list[Finding]:
    """Return the findings of recompiles in a run, without the recompile limit."""
    found = [one for one in run.traced.findings if one.code.startswith("recompile")]
    return [one for one in found if one.code != "recompile/limit"]


def _instead(judgment: Judgment, after: _Run) -> tuple[Finding, ...]:
    """Return the findings that a rewrite would have to end as well, to be better; empty if they are
    of several kinds."""
    if judgment.gone and judgment.problem and not judgment.appeared:
        # Another reason recompiles as often.
        return tuple(_recompiles_in(after)[:1])
    return judgment.instead


def _cause(finding: Finding) -> tuple[str, str]:
    """Return code and guarded value of a finding, which identify its cause in several versions of a
    program."""
    if finding.names:
        return finding.code, finding.names[0].name
    evidence = finding.evidence
    return finding.code, getattr(evidence, "title", "") or _without_calls(finding.message)


def _without_calls(message: str) -> str:
    """Return a message without the numbers of calls, which differ between programs."""
    return re.sub(r", in calls? .*", "", message)


def _judge_run(
    before: _Run, after: _Run, finding: Finding, left_out: Sequence[str] = ()
) -> Judgment:
    """Return the effect of a rewrite of a program on ``finding`` and on other findings.

    Graph breaks at calls of the functions ``left_out`` are expected.
    """
    problem = after.traced.problem
    failed = next(
        (one for one in after.traced.reports if one.status in ("failed", "crashed")), None
    )
    failures = (
        {one.name for one in before.traced.reports if one.status == failed.status}
        if failed
        else set()
    )
    if failed is not None and failed.name not in failures:
        problem = f"The changed program fails: {failed.error or failed.status}."
    if not problem and after.error and not before.error:
        problem = f"The changed program raises {after.error}."
    if not problem and after.is_cut_off and not before.is_cut_off:
        problem = "The changed program was stopped at a limit of time or memory."
    if not problem and before.graphs and not after.graphs:
        problem = "The changed program compiles nothing."
    if problem:
        return Judgment(False, problem=problem)
    if finding.code.startswith(("recompile", "backend")):
        return _judge_by_cause(before, after, finding, left_out)
    # The names of compiled functions differ if a rewrite compiles other functions.
    old, new = (replace(one.traced, reports=()) for one in (before, after))
    judgment = judge_rewrite(old, new, finding)
    # Code that ran in eager mode is compiled now, and once more when its sizes become dynamic.
    once_more = after.recompiles <= before.recompiles + 1
    appeared = tuple(
        one
        for one in judgment.appeared
        if not (_is_expected(one, left_out) or (once_more and one.code == "recompile/size"))
    )
    judgment = replace(judgment, appeared=appeared)
    if judgment.better and not judgment.revealed and not left_out:
        if after.observed is not None and after.breaks >= before.breaks:
            words = "The graph breaks in another file of the program instead."
            return replace(judgment, problem=words)
        if not once_more:
            words = amount(after.recompiles, "recompile")
            words = f"The changed program has {words} instead of {before.recompiles}."
            return replace(judgment, problem=words)
    return judgment


def _judge_by_cause(
    before: _Run, after: _Run, finding: Finding, left_out: Sequence[str]
) -> Judgment:
    """Return the effect of a rewrite on the finding of a recompile or of a compiler, and on other
    findings, which are matched by their causes."""
    known = {size for one in before.traced.findings for size in _sizes_in(one)}
    old = Counter(_cause(one) for one in before.traced.findings)
    new = Counter(_cause(one) for one in after.traced.findings)
    appeared = tuple(
        one
        for one in after.traced.findings
        if new[_cause(one)] > old[_cause(one)] and not _is_expected(one, left_out)
        if is_serious(one) or (one.code == "recompile/size" and not _sizes_in(one) <= known)
    )
    ended = tuple(one for one in before.traced.findings if new[_cause(one)] < old[_cause(one)])
    gone = new[_cause(finding)] < old[_cause(finding)]
    if finding.code.startswith("backend"):
        return Judgment(gone, ended, appeared)
    most = before.recompiles - finding.code.startswith("recompile")
    if gone and not appeared and after.recompiles > most:
        recompiles = amount(after.recompiles, "recompile")
        less = "not fewer than before" if most < before.recompiles else "more than before"
        return Judgment(gone, problem=f"The changed program has {recompiles}, {less}.")
    return Judgment(gone, ended, appeared)


def _is_expected(finding: Finding, left_out: Sequence[str]) -> bool:
    """Whether a finding is a graph break at a call of one of the functions ``left_out``, or says
    that an operator of torch itself lacks a tag."""
    if isinstance(finding.evidence, OperatorEvidence):
        return finding.evidence.operator.startswith(("aten.", "prims."))
    is_break = finding.code.startswith("graph-break")
    return is_break and any(f"`{name}`" in finding.message for name in left_out)


def _sizes_in(finding: Finding) -> set[str]:
    """Return the sizes that the message of a recompile mentions, such as ``x.shape[0]``; empty for
    other findings.

    After a rewrite, the same size may recompile because of another condition, with another message.
    """
    is_recompile = finding.code.startswith("recompile")
    return set(_SIZE.findall(finding.message)) if is_recompile else set()


def _compare_runs(candidate: Candidate, before: _Run, after: _Run) -> Compared:
    """Compare the values that the original and the rewritten program computed.

    The rewrite also fails if one of the extra calls of compiled functions differs from eager mode.
    """
    if before.observed is None or after.observed is None:
        return Compared(
            0, "unverified", reason="The program ended before its values were recorded."
        )
    if after.observed.difference and not before.observed.difference:
        words = f"In a call with other sizes or values, {after.observed.difference}."
        return Compared(0, "differs", reason=words)
    lost = set(candidate.loses)
    raised = any(
        one.code == "recompile/limit" and " raises under " in one.message
        for one in before.traced.findings
    )
    if candidate.is_same_eagerly:
        lost.add("state")  # the rewritten code does not change this state when it is compiled
    compared = compare_values(
        before.observed.unpack_values(),
        after.observed.unpack_values(),
        lost,
        ended_early=raised,
        stopped=before.observed.stopped or after.observed.stopped,
    )
    further = [ComparedCase("other sizes and values") for _ in range(after.observed.further)]
    return replace(compared, cases=tuple(further))
