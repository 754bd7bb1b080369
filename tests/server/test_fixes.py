"""What is made of candidates: traced, compared, graded, applied one after the other."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from fullgraph.fixes import verification
from fullgraph.fixes.candidate import Candidate, apply_edits, edits_between, merge_edits
from fullgraph.fixes.fixing import Fixed, Offered, fixed, fixed_with
from fullgraph.fixes.measuring import Timed, measured
from fullgraph.fixes.numerics import judge_numerics
from fullgraph.fixes.site import Site
from fullgraph.fixes.tracing import Judgment, Traced, judge_rewrite, trace_file
from fullgraph.fixes.verification import CALLER_SECONDS, COMPARE_SECONDS, Fix, Search, Verifier
from fullgraph.render.fixes import FixedFile, fixed_json, fixed_text
from fullgraph.render.measured import measured_document, measured_text, speed_verdict
from fullgraph.render.numerics import numerics_text
from fullgraph.render.paint import PLAIN
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    BreakCause,
    Compare,
    Compared,
    Coverage,
    Event,
    Finding,
    FindingFound,
    Measured,
    Measurement,
    NumericsJudged,
    NumericsVerdict,
    Position,
    ProbeInfo,
    ProbeOrigin,
    ProgramRequest,
    Range,
    RunId,
    SeenValue,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    ValuesSeen,
)
from fullgraph_engine.protocol.behavior import (
    Aspect,
    BehaviorOutcome,
    CaseOutcome,
    ComparedCase,
    Fill,
    ProgramObserved,
)
from fullgraph_engine.protocol.breaks import CauseKind
from fullgraph_engine.protocol.evidence import MISSING_NEXT, BreakEvidence, BreakOutcome
from fullgraph_engine.protocol.regions import CompileSite, Region, RegionCalls

ORIGIN = Range(Position(0, 0), Position(0, 1))


def break_at(
    line: int, message: str = "Graph break", outcome: BreakOutcome = "resumed", target: str = "f"
) -> Finding:
    return Finding(
        "graph-break/GB0001",
        message,
        Range(Position(line, 0), Position(line, 3)),
        target=target,
        identity=f"{message}@{line}",
        run=RunId(target),
        evidence=BreakEvidence(message, outcome),
    )


def report(*untraced: int, status: str = "traced", target: str = "f") -> TargetReport:
    places = [Range(Position(line, 0), Position(line, 1)) for line in untraced]
    covered = Coverage.from_ranges((), places)
    return TargetReport(target, "function", ORIGIN, status, coverage=covered)  # type: ignore[arg-type]


def traced(text: str, *findings: Finding, done: TargetReport | None = None) -> Traced:
    return Traced(text, findings, (done or report(),))


class Asked:
    """The events of a request, which is answered once it is ``ready``."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self.cancelled = False
        self.ready: asyncio.Event | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._all()

    async def _all(self) -> AsyncIterator[Event]:
        if self.ready is not None:
            await self.ready.wait()
        for event in self._events:
            await asyncio.sleep(0)
            yield event

    def cancel(self) -> None:
        self.cancelled = True

    def begun_by(self, event: Event) -> Asked:
        """Answer with ``event`` first, and then with the same events."""
        return Asked([event, *self._events])


class Engine:
    """Finds a break on each line that begins with ``break``; compares as it is told."""

    def __init__(self, compared: Callable[[Compare], Compared]) -> None:
        self._compared = compared
        self.analyzed: list[Analyze] = []
        self.compared: list[Compare] = []

    def analyze(self, request: Analyze) -> Asked:
        self.analyzed.append(request)
        lines = request.text.split("\n")
        found = [break_at(number, line) for number, line in enumerate(lines) if "break" in line]
        return Asked(
            [
                *(FindingFound(0, finding) for finding in found),
                *(TargetDone(0, report(target=name)) for name in request.only or ("f",)),
                Analyzed(0, request.generation, 0.1),
            ]
        )

    def compare(self, request: Compare) -> Asked:
        self.compared.append(request)
        return Asked([dataclasses.replace(self._compared(request), target=request.target)])


def compares_as(outcome: BehaviorOutcome, *, exact: bool = True) -> Callable[[Compare], Compared]:
    return lambda request: Compared(0, outcome, exact, reason="" if outcome == "same" else "why")


def without_line(
    *, preserves: bool = True, gives_up: str = ""
) -> Callable[[Site], Iterator[Candidate]]:
    """A rewrite that takes the line of the finding out."""

    def rewrite(site: Site) -> Iterator[Candidate]:
        lines = site.text.text.split("\n")
        del lines[site.finding.range.start.line]
        yield Candidate("out", "Take it out", "\n".join(lines), preserves, gives_up)

    return rewrite


def request_of(text: str) -> Analyze:
    return Analyze(0, "g", "f.py", text)


# -- versions of a text --------------------------------------------------------------------------


class Functions(Engine):
    """Traces functions with inputs in comments: each line with ``break`` is a break of its own."""

    def analyze(self, request: Analyze) -> Asked:
        self.analyzed.append(request)
        events: list[Event] = []
        infos: list[TargetInfo] = []
        name = ""
        probe = ProbeInfo("comment", "f32[4]")
        for number, line in enumerate(request.text.split("\n")):
            if line.startswith("def "):
                name = line[4:].partition("(")[0]
                place = Range(Position(number, 0), Position(number, 1))
                infos.append(TargetInfo(name, "function", place))
                if self.is_traced(name, request):
                    done = TargetReport(name, "function", place, "traced", probe=probe)
                    events.append(TargetDone(0, done))
            elif "break" in line and self.is_traced(name, request):
                events.append(FindingFound(0, break_at(number, line.strip(), target=name)))
        found = TargetsFound(0, tuple(infos))
        return Asked([found, *events, Analyzed(0, request.generation, 0.1)])

    @staticmethod
    def is_traced(name: str, request: Analyze) -> bool:
        return name not in request.without and name in (request.only or (name,))


SEVERAL = (
    "def f(x):\n    break_ = 1\n    return x\n\n\n"
    "def g(x):\n    break_ = 2\n    return x\n\n\n"
    "def h(x):\n    return g(x)\n"
)


def test_what_a_fix_cannot_affect_is_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Functions(compares_as("same"))
    request = dataclasses.replace(request_of(SEVERAL), parts=("first",))
    result = asyncio.run(fixed(engine, request))
    assert "break" not in result.text
    assert len(result.applied) == 2 and not result.left
    whole = [one for one in engine.analyzed if not one.only]
    assert [one.without for one in whole] == [(), ("g", "h"), ("f",)]


def test_findings_of_what_is_not_traced_again_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Functions(
        lambda request: Compared(0, "differs" if request.target == "g" else "same", True)
    )
    request = dataclasses.replace(request_of(SEVERAL), parts=("first",))
    result = asyncio.run(fixed(engine, request))
    assert len(result.applied) == 1
    assert [one.finding.range.start.line for one in result.left] == [5]


def test_only_named_functions_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Functions(compares_as("same"))
    request = dataclasses.replace(request_of(SEVERAL), only=("g",))
    result = asyncio.run(fixed(engine, request))
    assert result.text == SEVERAL.replace("    break_ = 2\n", "")
    assert all(one.only == ("g",) for one in engine.analyzed)
    missing = asyncio.run(fixed(engine, dataclasses.replace(request, only=("g", "k"))))
    assert missing.problem == "the file has no function or class k to trace."


# -- what a rewrite did -------------------------------------------------------------------------


def test_a_break_that_moved_with_its_line_is_still_there() -> None:
    before = traced("a\nb\n", wanted := break_at(1))
    after = traced("new\na\nb\n", break_at(2))
    judgment = judge_rewrite(before, after, wanted)
    assert not judgment.gone
    assert judgment.why == "The finding is still there."


def test_a_break_that_is_there_in_the_changed_line_is_not_gone() -> None:
    before = traced("a\nb\n", wanted := break_at(1))
    judgment = judge_rewrite(before, traced("a\nc\n", break_at(1)), wanted)
    assert not judgment.gone


def test_one_of_equal_lines_that_follow_one_another_is_gone() -> None:
    for line in (1, 2, 3):
        before = traced("a\nb\nb\nb\nc\n", *(break_at(number) for number in (1, 2, 3)))
        after = traced("a\nb\nb\nc\n", break_at(1), break_at(2))
        assert judge_rewrite(before, after, break_at(line)).better
    # One that is elsewhere says nothing.
    before = traced("b\na\nb\n", wanted := break_at(0), break_at(2))
    assert not judge_rewrite(before, traced("b\na\n", break_at(0)), wanted).gone


def test_one_of_two_alike_in_changed_lines_is_gone() -> None:
    before = traced("a\nb\nc\n", wanted := break_at(1), break_at(2))
    judgment = judge_rewrite(before, traced("a\nd\n", break_at(1)), wanted)
    assert judgment.better


def test_a_break_of_several_runs_counts_once() -> None:
    second = dataclasses.replace(break_at(1), run=RunId("f", 1))
    before = traced("a\nb\n", wanted := break_at(1), second)
    judgment = judge_rewrite(before, traced("a\nc\n", break_at(1)), wanted)
    assert not judgment.gone


def test_another_break_is_a_reason_to_refuse() -> None:
    before = traced("a\nb\n", wanted := break_at(1))
    judgment = judge_rewrite(before, traced("a\nc\n", break_at(1, "Another break")), wanted)
    assert judgment.gone
    assert not judgment.better
    assert judgment.why == "A new finding appears on line 2 of the changed text: Another break."


@pytest.mark.parametrize("outcome", ["rest-skipped", "frame-skipped", "raised"])
def test_breaks_behind_one_that_hid_them_are_revealed(outcome: BreakOutcome) -> None:
    before = traced("a\nb\nc\n", wanted := break_at(1, outcome=outcome))
    judgment = judge_rewrite(before, traced("a\nd\nc\n", break_at(2, "Hidden")), wanted)
    assert judgment.better
    assert [one.message for one in judgment.revealed] == ["Hidden"]


def test_a_size_that_is_pinned_where_the_break_was_is_revealed() -> None:
    before = traced("a\nb\n", wanted := break_at(1))
    size = dataclasses.replace(break_at(1, "Pinned"), code="guard/specialized-dimension")
    judgment = judge_rewrite(
        before,
        traced(
            "new\na\nb\n", dataclasses.replace(size, range=Range(Position(2, 0), Position(2, 3)))
        ),
        wanted,
    )
    assert judgment.better
    assert [one.message for one in judgment.revealed] == ["Pinned"]


def test_breaks_in_lines_that_were_not_traced_are_revealed() -> None:
    before = traced("a\nb\nc\n", wanted := break_at(1), done=report(2))
    judgment = judge_rewrite(before, traced("a\nd\nc\n", break_at(2, "Hidden")), wanted)
    assert judgment.better


@pytest.mark.parametrize("line", [1, 2])
def test_export_fails_where_the_graph_breaks_further_on(line: int) -> None:
    before = traced("a\nb\nc\n", wanted := break_at(0), break_at(2))
    failed = dataclasses.replace(break_at(line), code="export/data-dependent")
    judgment = judge_rewrite(before, traced("d\nb\nc\n", break_at(2), failed), wanted)
    assert judgment.better == (line == 2)


def test_a_break_that_now_skips_its_function_is_the_same() -> None:
    later = break_at(2, "Later")
    before = traced("a\nb\nc\n", wanted := break_at(1), later)
    skips = dataclasses.replace(
        later,
        message="Later; Dynamo skips the whole function",
        evidence=BreakEvidence("Later", "frame-skipped"),
    )
    assert judge_rewrite(before, traced("a\nd\nc\n", skips), wanted).better


def test_a_target_that_fails_says_nothing() -> None:
    before = traced("a\nb\n", wanted := break_at(1))
    failed = dataclasses.replace(report(status="failed"), error="ValueError: no")
    judgment = judge_rewrite(before, traced("a\nc\n", done=failed), wanted)
    assert not judgment.better
    assert judgment.why == "The trace of the changed code ended early: ValueError: no"


# -- grades ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewrite", "compared", "grade", "doubt"),
    [
        (without_line(), compares_as("same"), "safe", ""),
        (
            without_line(preserves=False),
            compares_as("same"),
            "unsafe",
            "The new code behaves the same for the tried inputs; other inputs may differ.",
        ),
        (without_line(gives_up="The print."), compares_as("same"), "unsafe", "The print."),
        (
            without_line(),
            compares_as("same", exact=False),
            "unsafe",
            "The results differ from the original results by rounding.",
        ),
        (
            without_line(),
            lambda _: Compared(0, "same", True, other_settings=True),
            "unsafe",
            "Other values of the object's attributes, which lead to other branches, were not "
            "tried.",
        ),
        (without_line(), compares_as("unverified"), "suggestion", "why"),
    ],
)
def test_grades(
    monkeypatch: pytest.MonkeyPatch,
    rewrite: Callable[[Site], Iterator[Candidate]],
    compared: Callable[[Compare], Compared],
    grade: str,
    doubt: str,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    text = "a = 1\nbreak_ = 2\n"
    verifier = Verifier(Engine(compared), request_of(text))
    search = asyncio.run(verifier.fixes(break_at(1, "break_ = 2"), ["f"]))
    (fix,) = search.fixes
    assert (fix.grade, fix.doubt) == (grade, doubt)
    assert fix.edits == edits_between(text, "a = 1\n")


def test_what_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    verifier = Verifier(Engine(compares_as("differs")), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert not search.fixes
    assert [one.why for one in search.refused] == ["why"]


@pytest.mark.parametrize(("aspects", "grades"), [(("warning",), ["unsafe"]), (("result",), [])])
def test_what_is_known_to_be_lost_may_differ(
    monkeypatch: pytest.MonkeyPatch, aspects: tuple[Aspect, ...], grades: list[str]
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("keep", "Keep it", "pass\n", loses=("warning",))

    def compare(request: Compare) -> Compared:
        return Compared(0, "differs", reason="The warning is gone.", aspects=aspects)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades
    assert all(fix.doubt == "The warning is gone." for fix in search.fixes)


def compared_case(inputs: str, *, same: bool, outcome: CaseOutcome = "returned") -> ComparedCase:
    values: Fill = "given" if inputs == "f32[4]" else "random"
    aspects: tuple[Aspect, ...] = () if same else ("result",)
    return ComparedCase(inputs, values, outcome=outcome, same=same, aspects=aspects)


@pytest.mark.parametrize(
    ("other", "grades"),
    [
        (compared_case("f32[8]", same=False, outcome="raised"), ["unsafe"]),
        (compared_case("f32[1]", same=False), ["unsafe"]),
        (compared_case("f32[0, 6]", same=False), ["unsafe"]),
        (compared_case("f32[8, 10]", same=False), []),
        (compared_case("f32[4]", same=False), []),
    ],
)
def test_what_extends_the_original_may_differ_where_that_raises(
    monkeypatch: pytest.MonkeyPatch, other: ComparedCase, grades: list[str]
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("size", "Write the size", "pass\n", extends=True)

    def compare(request: Compare) -> Compared:
        cases = compared_case("f32[4]", same=True), other
        return Compared(0, "differs", cases=cases, aspects=other.aspects)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades


def test_a_safe_fix_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(site: Site) -> Iterator[Candidate]:
        yield Candidate("pass", "Pass", "pass\n", preserves=True)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(), another))
    engine = Engine(compares_as("same"))
    verifier = Verifier(engine, request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.candidate.rewrite for fix in search.fixes] == ["out"]
    assert "pass\n" not in {request.text for request in engine.analyzed}


@pytest.mark.parametrize("outcome", ["same", "differs"])
def test_a_candidate_is_looked_at_further_beside_comparing(
    monkeypatch: pytest.MonkeyPatch, outcome: BehaviorOutcome
) -> None:
    """Neither is answered before both are asked for; what differs is looked at no further."""
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    looked: list[Asked] = []

    class Beside(Engine):
        def analyze(self, request: Analyze) -> Asked:
            asked = super().analyze(request)
            if "forecast" in request.parts:
                looking.set()
                asked.ready = comparing if outcome == "same" else asyncio.Event()
                looked.append(asked)
            return asked

        def compare(self, request: Compare) -> Asked:
            comparing.set()
            asked = super().compare(request)
            asked.ready = looking
            return asked

    async def tried() -> Search:
        verifier = Verifier(Beside(compares_as(outcome)), request_of("break_ = 2\n"))
        return await verifier.fixes(break_at(0, "break_ = 2"), ["f"])

    looking, comparing = asyncio.Event(), asyncio.Event()
    search = asyncio.run(asyncio.wait_for(tried(), 10))
    assert bool(search.fixes) == (outcome == "same")
    assert [one.cancelled for one in looked] == [outcome == "differs"]


def test_the_first_candidate_is_looked_at_further_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the break is gone is told once it is asked what else is there."""
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))

    class Further(Engine):
        def analyze(self, request: Analyze) -> Asked:
            asked = super().analyze(request)
            if "forecast" in request.parts:
                further.set()
            elif request.text == "\n":
                asked.ready = further
            return asked

    async def tried() -> Search:
        verifier = Verifier(Further(compares_as("same")), request_of("break_ = 2\n\n"))
        return await verifier.fixes(break_at(0, "break_ = 2"), ["f"])

    further = asyncio.Event()
    assert asyncio.run(asyncio.wait_for(tried(), 10)).fixes


@pytest.mark.parametrize("outcome", ["same", "differs"])
def test_what_calls_the_target_is_compared_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch, outcome: BehaviorOutcome
) -> None:
    """The lines that are changed need not be reached from there as well."""
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    compared: list[Compare] = []

    def compare(request: Compare) -> Compared:
        compared.append(request)
        return Compared(0, outcome if request.target == "g" else "same", True, reason="why")

    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f", "g"]))
    assert [fix.grade for fix in search.fixes] == ["safe"] * (outcome == "same")
    asked = {request.target: (request.seconds, request.covering) for request in compared}
    assert asked == {"f": (COMPARE_SECONDS, True), "g": (CALLER_SECONDS, False)}


def test_a_rewrite_of_code_that_only_a_program_calls_is_not_traced() -> None:
    site = CompileSite("/train.py", ORIGIN)
    region = Region("/train.py", "torch.compile", site)
    of_program = dataclasses.replace(report(target="Trainer.step"), region=region)
    found = break_at(0, "break_ = 2")
    after = traced("fine = 2\n", done=report(status="no-probe", target="Trainer.step"))
    judgment = judge_rewrite(traced("break_ = 2\n", found, done=of_program), after, found)
    assert judgment.why.startswith("Only a running program calls Trainer.step")
    after = traced("fine = 2\n", done=report(status="failed", target="Trainer.step"))
    before = traced("break_ = 2\n", found, done=report(target="Trainer.step"))
    judgment = judge_rewrite(before, after, found)
    assert judgment.why == "The changed code was not traced to its end."


class Program(Engine):
    """Runs a program; if ``breaks``, it has another break once the first is removed."""

    def __init__(self, *, breaks: bool) -> None:
        super().__init__(compares_as("same"))
        self._breaks = breaks

    def analyze(self, request: Analyze) -> Asked:
        if request.only or "break_" in request.text or not self._breaks:
            return super().analyze(request)
        found = FindingFound(0, break_at(1, "another"))
        return Asked([found, TargetDone(0, report()), Analyzed(0, request.generation, 0.1)])


@pytest.mark.parametrize("breaks", [False, True])
def test_code_that_only_a_program_reaches_is_traced_with_the_inputs_of_the_program(
    monkeypatch: pytest.MonkeyPatch, breaks: bool
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Program(breaks=breaks)
    text = "def f(x):\n    y = x\n    break_ = 2\n"
    program = ProgramRequest(seconds=5.0, candidates=("/train.py",))
    request = dataclasses.replace(request_of(text), program=program, parts=("first",))
    calls = (RegionCalls("step", (1,)),)
    found = dataclasses.replace(break_at(2, "    break_ = 2", target=""), calls=calls)
    verifier = Verifier(engine, request, traced=Traced(text, (found,), ()))
    search = asyncio.run(verifier.fixes(found, [""]))
    assert [fix.grade for fix in search.fixes] == ([] if breaks else ["safe"])
    assert {"another" in one.why for one in search.refused} == ({True} if breaks else set())
    traces = {(one.only, one.callers) for one in engine.analyzed}
    runs = set() if breaks else {((), ())}  # the given results show the original's run
    assert traces == {(("f",), ("/train.py",)), *runs}
    compared = {(one.target, one.analyze.callers) for one in engine.compared}
    assert compared == {("f", ("/train.py",))}


RECOMPILING = "a = 1\nbreak_ = 2\n"
RECOMPILE = dataclasses.replace(
    break_at(1, "break_ = 2"), code="recompile/size", calls=(RegionCalls("step", (1,)),)
)


class Recompiling(Engine):
    """An engine that runs a program with a recompile, and a changed version of it.

    ``changed`` are the events of the changed version.
    """

    def __init__(self, *changed: Event) -> None:
        super().__init__(compares_as("same"))
        self._changed = changed

    def analyze(self, request: Analyze) -> Asked:
        super().analyze(request)
        original = FindingFound(0, RECOMPILE), ProgramObserved(0, graphs=1)
        shown = original if request.text == RECOMPILING else self._changed
        return Asked([*shown, Analyzed(0, request.generation, 0.1)])


def refusals(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why a rewrite for the recompile is refused."""
    made = (Candidate("r", "r", RECOMPILING.replace("1", "2")),)
    monkeypatch.setattr("fullgraph.fixes.program_verification.candidates_in", lambda *_: made)
    program = ProgramRequest(seconds=5.0)
    request = dataclasses.replace(request_of(RECOMPILING), program=program, parts=("first",))
    search = asyncio.run(Verifier(engine, request).fixes(RECOMPILE, [""]))
    assert not search.fixes
    return [one.why for one in search.refused]


def test_a_rewrite_that_does_not_end_a_recompile_is_run_with_few_further_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Recompiling(FindingFound(0, RECOMPILE), ProgramObserved(0, graphs=1))
    assert refusals(engine, monkeypatch) == ["The finding is still there."]
    runs = [(one.text == RECOMPILING, one.program.further_calls) for one in engine.analyzed]
    assert runs == [(True, 100), (False, 3)]


def test_a_rewrite_for_two_recompiles_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Recompiling(FindingFound(0, RECOMPILE), ProgramObserved(0, graphs=1))
    made = (Candidate("r", "r", RECOMPILING.replace("1", "2")),)
    monkeypatch.setattr("fullgraph.fixes.program_verification.candidates_in", lambda *_: made)
    program = ProgramRequest(seconds=5.0)
    request = dataclasses.replace(request_of(RECOMPILING), program=program, parts=("first",))
    verifier = Verifier(engine, request)
    for _ in range(2):
        assert not asyncio.run(verifier.fixes(RECOMPILE, [""])).fixes
    assert len(engine.analyzed) == 2


def test_what_was_not_traced_is_named() -> None:
    class Untraced(Engine):
        def analyze(self, request: Analyze) -> Asked:
            reports = [report(target=f"f{number}", status="no-probe") for number in range(8)]
            reports.append(
                dataclasses.replace(report(target="g", status="no-probe"), compiled=False)
            )
            done = [TargetDone(0, one) for one in (*reports, report(target="h"))]
            return Asked([*done, Analyzed(0, request.generation, 0.1)])

    result = asyncio.run(fixed(Untraced(compares_as("same")), request_of("a = 1\n")))
    assert result.untraced == tuple(f"f{number}" for number in range(8))
    file = FixedFile("f.py", result.text, result)
    assert fixed_text(file, PLAIN) == (
        "f.py: f0, f1, f2, f3, f4, f5 and 2 more were not traced; see `fullgraph check`."
    )
    assert len(json.loads(fixed_json((file,), "2.13", ()))["files"][0]["untraced"]) == 8


def test_the_search_for_fixes_of_recompiles_ends_after_a_time() -> None:
    engine = Recompiling()
    program = ProgramRequest(seconds=5.0)
    request = dataclasses.replace(request_of(RECOMPILING), program=program, parts=("first",))
    (left,) = asyncio.run(fixed(engine, request, recompile_seconds=0.0)).left
    assert "fix --recompile-time`" in left.search.why_unfixed
    assert {one.text for one in engine.analyzed} == {RECOMPILING}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param(
            ProgramObserved(0, graphs=0, how="raised", error="RuntimeError: no kernel"),
            "The changed program raises RuntimeError: no kernel.",
            id="raises before it compiles",
        ),
        pytest.param(
            ProgramObserved(0, graphs=0, how="time"),
            "The changed program was stopped at a limit of time or memory.",
            id="time limit",
        ),
        pytest.param(
            None,
            "The changed program was stopped at a limit of time or memory.",
            id="killed",
        ),
        pytest.param(
            ProgramObserved(0, graphs=0), "The changed program compiles nothing.", id="no graph"
        ),
    ],
)
def test_why_a_changed_program_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch, changed: ProgramObserved | None, why: str
) -> None:
    events = (changed,) if changed is not None else ()
    assert refusals(Recompiling(*events), monkeypatch) == [why]


def test_a_rewrite_that_is_the_same_for_two_breaks_is_verified_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "import torch\nbreak_ = 2\nbreak_ = 2\n"

    def setting(site: Site) -> Iterator[Candidate]:
        yield Candidate("setting", "Set it", "import torch\nall = 1\nfree = 2\nfree = 2\n")

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (setting,))
    engine = Engine(compares_as("same"))
    verifier = Verifier(engine, request_of(text))
    search = asyncio.run(verifier.fixes(break_at(1, "break_ = 2"), ["f"]))
    assert len(search.fixes) == 1
    assert len(engine.compared) == 1


def test_rewrites_get_the_kinds_of_values_that_the_trace_saw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = SeenValue(Range(Position(0, 0), Position(0, 1)), "int", "n", "f")

    class Seeing(Engine):
        def analyze(self, request: Analyze) -> Asked:
            return super().analyze(request).begun_by(ValuesSeen.from_values(0, "f", [seen]))

    given: list[Sequence[SeenValue]] = []

    def rewrite(site: Site) -> Iterator[Candidate]:
        given.append(site.text.seen)
        yield from without_line()(site)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Seeing(compares_as("same")), request_of("break_ = 2\n"))
    assert asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"])).fixes
    assert given[-1] == (seen,)


def searched(engine: Engine, *reports: TargetReport) -> Search:
    """What becomes of a break in a text of which the runs are known."""
    request = dataclasses.replace(request_of("break_ = 2\n"), parts=("first",))
    found = break_at(0, "break_ = 2")
    verifier = Verifier(engine, request, traced=Traced(request.text, (found,), reports))
    targets = list(dict.fromkeys(one.name for one in reports))
    return asyncio.run(verifier.fixes(found, targets))


def test_the_target_is_compared_with_each_probe_that_it_was_traced_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    asked: list[int] = []

    def compare(request: Compare) -> Compared:
        asked.append(request.last_probe)
        return Compared(0, "same", True)

    second = dataclasses.replace(report(), probe_number=1)
    assert searched(Engine(compare), report(), second).fixes
    assert asked == [1]


@pytest.mark.parametrize("further", [False, True])
def test_a_call_that_was_compared_is_not_compared_as_that_of_another_target(
    monkeypatch: pytest.MonkeyPatch, further: bool
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    compared: list[str] = []

    def compare(request: Compare) -> Compared:
        compared.append(request.target)
        return Compared(0, "same", True)

    probe = ProbeInfo("harvest", "f32[2]", same_as="f")
    reports = [report(), dataclasses.replace(report(target="g"), probe=probe)]
    if further:
        reports.append(dataclasses.replace(report(target="g"), probe_number=1))
    assert searched(Engine(compare), *reports).fixes
    assert compared == ["f", *(["g"] if further else [])]


def test_targets_that_needed_real_tensors_are_traced_with_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Engine(compares_as("same"))
    assert searched(engine, dataclasses.replace(report(), mode="real"), report(target="g")).fixes
    assert {one.real for one in engine.analyzed} == {("f",)}


def test_what_is_known_of_the_original_is_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Engine(compares_as("same"))
    assert searched(engine, report()).fixes
    assert "break_ = 2\n" not in {one.text for one in engine.analyzed}


@pytest.mark.parametrize("original", [True, False])
def test_the_original_is_looked_at_further_where_that_may_excuse_the_changed_text(
    monkeypatch: pytest.MonkeyPatch, original: bool
) -> None:
    """A recompile of the changed text is nothing new if the original has it as well."""
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    recompiling = dataclasses.replace(break_at(0, "y"), code="recompile/size", evidence=None)

    class Recompiling(Engine):
        def analyze(self, request: Analyze) -> Asked:
            asked = super().analyze(request)
            if "forecast" in request.parts:
                found = original or request.text != text
                events: list[Event] = [FindingFound(0, recompiling), TargetDone(0, report())]
                return Asked(events[not found :])
            return asked

    text = "break_ = 2\ny = 1\n"
    verifier = Verifier(Recompiling(compares_as("same")), request_of(text))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == ["safe" if original else "unsafe"]


def _texts(*texts: str) -> tuple[Callable[[Site], Iterator[Candidate]]]:
    """What yields candidates with these texts."""

    def rewrite(site: Site) -> Iterator[Candidate]:
        yield from (Candidate(f"r{n}", f"r{n}", text, True) for n, text in enumerate(texts))

    return (rewrite,)


def test_behind_one_that_is_refused_the_next_is_looked_at_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second candidate is answered once the third has been asked for."""
    texts = "break_ = 3\n", "break_ = 4\n", "a = 1\n"
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", _texts(*texts))

    class Ahead(Engine):
        def analyze(self, request: Analyze) -> Asked:
            asked = super().analyze(request)
            if request.text == texts[1]:
                asked.ready = third
            elif request.text == texts[2]:
                third.set()
            return asked

    async def tried() -> Search:
        verifier = Verifier(engine, request_of("break_ = 2\n"))
        return await verifier.fixes(break_at(0, "break_ = 2"), ["f"])

    engine, third = Ahead(compares_as("same")), asyncio.Event()
    search = asyncio.run(asyncio.wait_for(tried(), 10))
    assert [fix.candidate.text for fix in search.fixes] == [texts[2]]
    asked = [(one.text, one.parts) for one in engine.analyzed]
    assert len(asked) == len(set(asked))


def test_what_was_looked_at_ahead_ends_with_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = "break_ = 3\n", "a = 1\n", "b = 1\n"
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", _texts(*texts))
    looked: list[Asked] = []

    class Ahead(Engine):
        def analyze(self, request: Analyze) -> Asked:
            asked = super().analyze(request)
            if request.text == texts[2]:
                asked.ready = asyncio.Event()  # it is never answered
                looked.append(asked)
            return asked

    async def tried() -> Search:
        verifier = Verifier(Ahead(compares_as("same")), request_of("break_ = 2\n"))
        return await verifier.fixes(break_at(0, "break_ = 2"), ["f"])

    search = asyncio.run(asyncio.wait_for(tried(), 10))
    assert [fix.candidate.text for fix in search.fixes] == [texts[1]]
    assert [one.cancelled for one in looked] == [True]


# -- all of a text ------------------------------------------------------------------------------


def test_fixes_are_applied_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    text = "a = 1\nbreak_ = 2\nb = 3\nbreak_ = 4\n"
    result = asyncio.run(fixed(Engine(compares_as("same")), request_of(text)))
    assert result.text == "a = 1\nb = 3\n"
    assert len(result.applied) == 2
    assert not result.left


def test_the_last_break_is_not_looked_for_in_what_the_probe_leads_to_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    engine = Engine(compares_as("same"))
    request = dataclasses.replace(
        request_of("break_ = 1\nx = 1\nbreak_ = 2\n"), parts=("first", "paths")
    )
    result = asyncio.run(fixed(engine, request))
    assert result.text == "x = 1\n"
    # Those of the whole file: behind the first fix another one is known, behind the second none.
    whole = [one.parts for one in engine.analyzed if not one.only]
    assert whole == [("first",), ("first",), ("first", "paths")]


def test_only_fixes_of_the_grades_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(preserves=False),))
    text = "break_ = 2\n"
    engine = Engine(compares_as("same"))
    left_alone = asyncio.run(fixed(engine, request_of(text)))
    assert left_alone.text == text
    assert [fix.grade for fix in left_alone.left[0].search.fixes] == ["unsafe"]
    changed = asyncio.run(fixed(engine, request_of(text), grades=("safe", "unsafe")))
    assert changed.text == ""


def fix_without(text: str, *lines: int, revealed: tuple[Finding, ...] = ()) -> Fix:
    """A verified fix that removes lines, and the break on each of them."""
    rows = text.split("\n")
    changed = "\n".join(row for number, row in enumerate(rows) if number not in lines)
    ended = tuple(break_at(number, rows[number]) for number in lines)
    judgment = Judgment(True, ended, revealed=revealed)
    return Fix(
        Candidate("out", "Take it out", changed),
        "safe",
        ended,
        edits_between(text, changed),
        judgment,
    )


def test_fixes_that_are_known_are_applied_without_a_search() -> None:
    text = "break_ = 1\nbreak_ = 2\na = 1\nbreak_ = 3\n"
    engine = Engine(compares_as("same"))
    both, one, last = (fix_without(text, *lines) for lines in ((0, 1), (0,), (3,)))
    known = asyncio.run(fixed_with(engine, request_of(text), (), [one, both, last]))
    assert known.text == "a = 1\n"
    assert known.applied == (both, last)
    assert engine.analyzed == []


def test_only_what_known_fixes_reveal_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    text = "break_ = 1\nbreak_ = 2\nbreak_ = 3\n"
    unfixed = break_at(1, "break_ = 2")
    fix = fix_without(text, 0, revealed=(break_at(1, "break_ = 3"),))
    engine = Engine(compares_as("same"))
    known = asyncio.run(fixed_with(engine, request_of(text), (unfixed,), [fix]))
    assert known.text == "break_ = 2\n"
    assert len(known.applied) == 2


def test_fixes_together_leave_out_what_touches_the_same_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    text = "a = 1\nbreak_ = 2\nb = 3\nbreak_ = 4\n"
    verifier = Verifier(Engine(compares_as("same")), request_of(text))

    async def both() -> verification.Fix | None:
        found = [
            (await verifier.fixes(break_at(line, words), ["f"])).fixes[0]
            for line, words in ((1, "break_ = 2"), (3, "break_ = 4"))
        ]
        return await verifier.together([*found, found[0]])

    fix = asyncio.run(both())
    assert fix is not None
    assert fix.candidate.text == "a = 1\nb = 3\n"
    assert len(fix.findings) == 2


ALIKE = "def f(x):\n    break_a\n    y = x\n    break_b\n\n\ndef g(x):\n    break_c\n"


class Alike(Engine):
    """Each line with ``break`` has a break of the same kind."""

    def analyze(self, request: Analyze) -> Asked:
        self.analyzed.append(request)
        lines = request.text.split("\n")
        found = [break_at(number) for number, line in enumerate(lines) if "break" in line]
        done = (TargetDone(0, report()), Analyzed(0, request.generation, 0.1))
        return Asked([*(FindingFound(0, one) for one in found), *done])


def test_a_fix_also_removes_breaks_of_the_same_kind_in_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    verifier = Verifier(Alike(compares_as("same")), request_of(ALIKE))
    (fix,) = asyncio.run(verifier.fixes(break_at(3), ["f"])).fixes
    assert fix.candidate.text == ALIKE.replace("    break_a\n", "").replace("    break_b\n", "")
    assert fix.grade == "safe"
    assert [one.range.start.line for one in fix.findings] == [3, 1]


def test_a_break_of_the_same_kind_stays_if_its_rewrite_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))

    def compare(request: Compare) -> Compared:
        return Compared(0, "same" if "break_a" in request.changed else "differs", True)

    verifier = Verifier(Alike(compare), request_of(ALIKE))
    (fix,) = asyncio.run(verifier.fixes(break_at(3), ["f"])).fixes
    assert fix.candidate.text == ALIKE.replace("    break_b\n", "")


COMPREHENSION = "def f(xs):\n    ys = [x + 1 for x in xs]\n    break_a\n    return ys\n"


class Separate(Engine):
    """A break makes Dynamo skip the function, and then break at its comprehension, too."""

    def analyze(self, request: Analyze) -> Asked:
        self.analyzed.append(request)
        lines = request.text.split("\n")
        found = [break_at(2, outcome="frame-skipped")] if "break" in lines[2] else []
        place = Range(Position(1, 9), Position(1, 27))
        at_iterator = break_at(1, MISSING_NEXT, "frame-skipped")
        found += [dataclasses.replace(at_iterator, range=place) for _ in found]
        done = (TargetDone(0, report()), Analyzed(0, request.generation, 0.1))
        return Asked([*(FindingFound(0, one) for one in found), *done])


def test_a_comprehension_traced_by_itself_gets_the_fix_of_the_break_that_skips_its_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        if site.finding.range.start.line == 2:
            yield from without_line()(site)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    engine = Separate(compares_as("same"))
    traced_findings = asyncio.run(trace_file(engine, request_of(COMPREHENSION))).findings
    (wanted,) = (one for one in traced_findings if one.message == MISSING_NEXT)
    (fix,) = asyncio.run(Verifier(engine, request_of(COMPREHENSION)).fixes(wanted, ["f"])).fixes
    assert fix.candidate.text == COMPREHENSION.replace("    break_a\n", "")
    assert [one.range.start.line for one in fix.findings] == [1, 2]


def test_edits_of_two_versions_are_merged_unless_they_overlap() -> None:
    text = "a\nb\nc\n"
    first, second = edits_between(text, "new\nA\nb\nc\n"), edits_between(text, "a\nb\nC\n")
    merged = merge_edits(first, (*second, *first))
    assert merged is not None and apply_edits(text, merged) == "new\nA\nb\nC\n"
    assert (
        merge_edits(edits_between(text, "a\nx\nb\nc\n"), edits_between(text, "a\ny\nb\nc\n"))
        is None
    )
    assert merge_edits(edits_between(text, "a\n"), second) is None


def test_edits_are_whole_lines_and_keep_line_ends() -> None:
    before, after = "a\r\nb\r\nc", "a\r\nB\r\nc"
    (edit,) = edits_between(before, after)
    assert edit.range == Range(Position(1, 0), Position(2, 0))
    assert edit.text == "B\r\n"


# -- several steps --------------------------------------------------------------------------------


def _replacing(
    was: str, by: str, *, suggestion: bool = False
) -> Callable[[Site], Iterator[Candidate]]:
    """A rewrite of lines with these words."""

    def rewrite(site: Site) -> Iterator[Candidate]:
        text = site.text.text
        if was in text.split("\n")[site.finding.range.start.line]:
            changed = text.replace(was, by)
            yield Candidate(was, f"Do {by}", changed, gives_up=f"{was}.", suggestion=suggestion)

    return rewrite


def test_what_brings_one_other_break_is_tried_with_the_candidates_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrites = (_replacing("break_a", "break_b"), _replacing("break_b", "c"))
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", rewrites)
    verifier = Verifier(Engine(compares_as("same")), request_of("break_a = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_a = 2"), ["f"]))
    (fix,) = search.fixes
    assert fix.candidate.text == "c = 2\n"
    assert fix.candidate.rewrite == "break_a+break_b"
    assert fix.candidate.title == "Do break_b, and do c"
    assert fix.doubt == "break_a. break_b."


def test_a_suggestion_is_no_step_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites = (_replacing("break_a", "break_b", suggestion=True), _replacing("break_b", "c"))
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", rewrites)
    verifier = Verifier(Engine(compares_as("same")), request_of("break_a = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_a = 2"), ["f"]))
    assert not search.fixes


def test_steps_that_lead_in_a_circle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites = (_replacing("break_a", "break_b"), _replacing("break_b", "break_a"))
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", rewrites)
    verifier = Verifier(Engine(compares_as("same")), request_of("break_a = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_a = 2"), ["f"]))
    assert not search.fixes
    assert [one.why for one in search.refused][1:] == ["The finding is still there."]


@pytest.mark.parametrize(
    ("inputs", "aspects", "grades"),
    [
        ("x=f32[0, 4]", ("outcome",), ["unsafe"]),
        ("x=f32[0, 4]", ("outcome", "result"), []),
        ("x=f32[3, 4]", ("outcome",), []),
        ("x=f32[0, 4]", (), []),
    ],
)
def test_a_side_that_is_not_taken_need_not_fit_empty_tensors(
    monkeypatch: pytest.MonkeyPatch, inputs: str, aspects: tuple[Aspect, ...], grades: list[str]
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("both", "Compute both", "pass\n", computes_more=True)

    def compare(request: Compare) -> Compared:
        cases = (
            ComparedCase("x=f32[2, 4]"),
            ComparedCase(inputs, "random", same=False, aspects=aspects),
        )
        return Compared(0, "differs", cases=cases, reason="It raises.", aspects=aspects)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades


@pytest.mark.parametrize(
    ("given", "inputs", "grades"),
    [
        ("x=f32[2, 4], y=f32[2]", "x=f32[2, 4], y=f32[3]", ["unsafe"]),
        ("x=f32[2, 4], y=f32[2]", "x=f32[3, 4], y=f32[3]", []),
        ("x=f32[2, 4], y=f32[2]", "x=f32[2, 4], y=f32[2]", []),
    ],
)
def test_a_side_that_is_not_taken_need_not_fit_inputs_that_do_not_go_together(
    monkeypatch: pytest.MonkeyPatch, given: str, inputs: str, grades: list[str]
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("both", "Compute both", "pass\n", computes_more=True)

    def compare(request: Compare) -> Compared:
        other = ComparedCase(inputs, "random", same=False, aspects=("outcome",))
        return Compared(0, "differs", cases=(ComparedCase(given), other), aspects=("outcome",))

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades


@pytest.mark.parametrize(
    ("conditions", "loses", "grades"),
    [
        ("dtype f64", (), ["unsafe"]),
        ("not contiguous", (), []),
        ("", ("result",), ["unsafe"]),
    ],
)
def test_sides_may_have_other_dtypes_in_a_case_of_another_dtype(
    monkeypatch: pytest.MonkeyPatch,
    conditions: str,
    loses: tuple[Aspect, ...],
    grades: list[str],
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("both", "Compute both", "pass\n", computes_more=True, loses=loses)

    def compare(request: Compare) -> Compared:
        cases = (
            ComparedCase("x=f32[2]"),
            ComparedCase("x=f32[2]", same=False, conditions=conditions, aspects=("result",)),
        )
        return Compared(0, "differs", cases=cases, reason="It is f64.", aspects=("result",))

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades


@pytest.mark.parametrize(
    ("aspects", "outside", "grades"),
    [
        (("gradient",), True, ["unsafe"]),
        (("gradient",), False, []),
        (("stdout",), True, []),
    ],
)
def test_a_side_that_is_not_taken_need_not_be_defined_outside_of_the_range_of_the_example(
    monkeypatch: pytest.MonkeyPatch,
    aspects: tuple[Aspect, ...],
    outside: bool,
    grades: list[str],
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("both", "Compute both", "pass\n", computes_more=True)

    def compare(request: Compare) -> Compared:
        other = ComparedCase("x=f32[2]", "zero", same=False, aspects=aspects, outside=outside)
        return Compared(0, "differs", cases=(ComparedCase("x=f32[2]"), other), reason="It is nan.")

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades


def test_code_that_does_not_come_to_the_end_of_a_case_is_no_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process ended: no case says so."""

    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("both", "Compute both", "pass\n", computes_more=True, extends=True)

    def compare(request: Compare) -> Compared:
        return Compared(0, "differs", cases=(ComparedCase("x=f32[2]"),), aspects=("outcome",))

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    assert not asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"])).fixes


class Guarding(Engine):
    """Also finds a guard on each line with ``guard``."""

    def __init__(self, code: str) -> None:
        super().__init__(compares_as("same"))
        self._code = code

    def analyze(self, request: Analyze) -> Asked:
        lines = request.text.split("\n")
        guards = [
            dataclasses.replace(break_at(number, "It is pinned"), code=self._code)
            for number, line in enumerate(lines)
            if "guard" in line and "break" not in request.text
        ]
        found = [FindingFound(0, guard) for guard in guards]
        return Asked([*found, *super().analyze(request)._events])


@pytest.mark.parametrize(
    ("code", "brought", "grades"),
    [
        ("guard/specialized-dimension", "guard_b", ["unsafe"]),
        ("guard/specialized-dimension", "guard_a", ["unsafe"]),
        ("guard/mutated", "guard_a", ["unsafe"]),
        ("guard/mutated", "guard_b", []),
        ("export/mutation", "guard_a", []),
    ],
)
def test_a_fix_may_bring_a_guard_but_is_not_safe_then(
    monkeypatch: pytest.MonkeyPatch, code: str, brought: str, grades: list[str]
) -> None:
    """``guard_a`` is a line of the original as well, whose guard only shows without the break."""

    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("out", "Take it out", f"c = 1\n{brought}\n", preserves=True)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Guarding(code), request_of("break_ = 2\nguard_a\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [fix.grade for fix in search.fixes] == grades
    words = "The fix compiles code that has a guard: It is pinned."
    assert all(fix.doubt == words for fix in search.fixes)


@pytest.mark.parametrize("known", ["", "is_same_eagerly", "keeps_branches"])
def test_conditions_that_stay_the_same_need_no_inputs_for_both_sides(
    monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    same = bool(known)
    covering: list[bool] = []

    def compare(request: Compare) -> Compared:
        covering.append(request.covering)
        return Compared(0, "unverified" if request.covering else "same", not request.covering)

    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate(
            "a",
            "Skip it",
            "x\n",
            gives_up="It is skipped.",
            is_same_eagerly=known == "is_same_eagerly",
            keeps_branches=known == "keeps_branches",
        )

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert covering == [not same]
    assert [fix.grade for fix in search.fixes] == ["unsafe" if same else "suggestion"]


def test_a_suggestion_is_not_compared_and_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate("a", "Adapt", "pass\n", suggestion=True)
        yield Candidate("b", "Take it out", "x\n", gives_up="It.")

    compared: list[str] = []

    def compare(request: Compare) -> Compared:
        compared.append(request.changed)
        return Compared(0, "differs", reason="It is another one.", aspects=("result",))

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert compared == ["x\n"]
    assert [fix.candidate.rewrite for fix in search.fixes] == ["a"]


# -- times ----------------------------------------------------------------------------------------


class SlowEngine(Engine):
    """An engine that stops each trace at the time limit."""

    def analyze(self, request: Analyze) -> Asked:
        late = Finding("trace/timeout", "`f` took too long", ORIGIN, target="f")
        done = dataclasses.replace(report(), status="timeout")
        return Asked(
            [FindingFound(0, late), TargetDone(0, done), Analyzed(0, request.generation, 0.1)]
        )


def test_code_that_was_not_traced_to_its_end_is_left() -> None:
    result = asyncio.run(fixed(SlowEngine(compares_as("same")), request_of("a = 1\n")))
    file = FixedFile("f.py", "a = 1\n", result)
    assert fixed_text(file, PLAIN).splitlines() == [
        "f.py:1: `f` took too long (trace/timeout)",
        "  There may be more findings, because this code was not traced to its end.",
    ]
    (left,) = json.loads(fixed_json((file,), "2.13", ()))["files"][0]["left"]
    assert left["code"] == "trace/timeout"


class Clock(Engine):
    """Also takes the time of ``f``: of the text with a break it is twice as long."""

    def analyze(self, request: Analyze) -> Asked:
        if request.parts == ("prepare",):
            self.analyzed.append(request)
            return Asked([])
        if "measure" not in request.parts:
            return super().analyze(request)
        self.analyzed.append(request)
        compiled = 2.0 if "break" in request.text else 1.0
        found = Measurement("cpu", 2, 3.0, compiled, 10.0, 1)
        return Asked([Measured(0, "f", RunId("f", part="measure"), found)])


def test_targets_are_timed_as_they_are_and_with_what_fixes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    probe = ProbeInfo("comment", "f32[4]")
    done = dataclasses.replace(report(), probe=probe, breaks=1)
    called = dataclasses.replace(
        report(target="inner"), probe=dataclasses.replace(probe, origin="harvest")
    )
    engine = Clock(compares_as("same"))
    (timed,) = asyncio.run(measured(engine, request_of("break_ = 2\na = 1\n"), [done, called]))
    assert (timed.target, timed.inputs, len(timed.fixes)) == ("f", "f32[4]", 1)
    assert timed.fixed is not None
    assert (timed.plain.compiled, timed.fixed.compiled) == (2.0, 1.0)
    prepared = [one.parts for one in engine.analyzed].index(("prepare",))
    timing = [one for one in engine.analyzed if one.parts == ("measure",)]
    assert prepared < engine.analyzed.index(timing[0])
    assert [(one.mode, one.jobs, one.only) for one in timing] == [("real", 1, ("f",))] * 2
    # The comparison that verified the only fix is reused.
    assert timed.compared is not None and timed.compared.outcome == "same"
    assert [one for one in engine.compared if not one.covering] == []


def test_several_fixes_are_compared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (without_line(),))
    done = dataclasses.replace(report(), probe=ProbeInfo("comment", "f32[4]"), breaks=2)
    engine = Clock(compares_as("same"))
    text = "break_ = 2\na = 1\nbreak_ = 3\n"
    (timed,) = asyncio.run(measured(engine, request_of(text), [done]))
    assert len(timed.fixes) == 2 and timed.compared is not None
    assert [one.changed for one in engine.compared if not one.covering] == [timed.changed]


@pytest.mark.parametrize(
    ("graphs", "compiled", "outcome", "applicable"),
    [
        (2, 0.9, "same", True),
        (1, 1.02, "same", True),
        (2, 1.02, "same", False),
        (1, 1.2, "same", False),
        (1, 0.9, "differs", False),
    ],
)
def test_fixes_are_offered_if_they_gain_time_or_leave_fewer_graphs(
    graphs: int, compiled: float, outcome: BehaviorOutcome, applicable: bool
) -> None:
    plain = Measurement("cpu", 1, 2.0, 1.0, 3.0, 2)
    fixed_ = dataclasses.replace(plain, compiled=compiled, graphs=graphs)
    timed = Timed("f", "f32[4]", plain, fixed_, compared=Compared(0, outcome))
    assert timed.is_applicable == applicable


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        ("comment", "The compiled code was not called a second time."),
        ("program", "The inputs of this function are known only while"),
    ],
)
def test_the_reason_why_nothing_was_measured(origin: ProbeOrigin, reason: str) -> None:
    done = dataclasses.replace(report(), probe=ProbeInfo(origin, "f32[4]"))
    engine = Engine(compares_as("same"))
    (timed,) = asyncio.run(measured(engine, request_of("a = 1\n"), [done]))
    assert timed.plain.reason.startswith(reason)


def test_a_function_is_measured_with_all_inputs_of_its_trace_and_they_are_named() -> None:
    reports = [
        dataclasses.replace(
            report(target="Net"), probe_number=number, probe=ProbeInfo("convention", "f32[4]", init)
        )
        for number, init in enumerate(("", "wide=True"))
    ]
    engine = Engine(compares_as("same"))
    timed = asyncio.run(measured(engine, request_of("a = 1\n"), reports))
    order = engine.analyzed[-1].observe
    assert order is not None and order.last_probe == 1
    first, second, *_ = measured_document("net.py", timed, "a = 1\n", current=True).splitlines()
    assert first.startswith("Net (f32[4]): ")
    assert second.startswith("Net (init(wide=True) f32[4]): ")


def test_times_are_said_with_the_device_and_what_there_is_not() -> None:
    plain = Measurement("cpu", 2, 0.002, 0.0005, 12.0, 3)
    refused = Measurement("cpu", 2, 0.002, reason="Inductor needs a C++ compiler.")
    fix = Candidate("out", "Take it out", "")
    fixes = (Fix(fix, "safe", (), (), Judgment(True)),)
    assert measured_text([Timed("f", "f32[4]", plain, refused, fixes)]) == (
        "f (f32[4]), forward, on the CPU with 2 threads; nothing is measured on a GPU\n"
        "  eager                 2 ms\n"
        "  compiled            500 µs  4.00 times as fast as eager, 3 graphs, compiled in 12 s\n"
        "  with the fix    not measured: Inductor needs a C++ compiler."
    )
    # The function is called by a program, so it has no inputs of its own.
    slow = measured_text([Timed("f", "", dataclasses.replace(plain, compiled=0.5))]).splitlines()
    assert slow[0].startswith("f, forward, ")
    assert "500 ms  250 times as slow as eager, " in slow[2]


def test_the_gain_of_fixes_is_said_in_one_line() -> None:
    fix = Fix(Candidate("out", "Take it out", ""), "safe", (), (), Judgment(True))
    plain = Measurement("cpu", 2, 0.003, 0.0031, 12.0, 3, "aten.mm", 0.9)
    small = dataclasses.replace(plain, eager=40e-6, compiled=40e-6, graphs=1)
    same = Compared(0, "same", exact=True, cases=(ComparedCase("x=f32[4]"),) * 36)
    differs = Compared(0, "differs", reason="The result differs.")
    rounded = dataclasses.replace(same, exact=False)

    def verdict(
        plain: Measurement, compiled: float | None = None, compared: Compared | None = None
    ) -> str:
        if compiled is None:
            return speed_verdict(Timed("f", "", plain))
        fixed = dataclasses.replace(plain, compiled=compiled, graphs=1)
        return speed_verdict(Timed("f", "", plain, fixed, (fix,), "", compared))

    times = "\N{MULTIPLICATION SIGN}"
    faster = f"3 graphs → 1, 3.10{times} faster"
    assert verdict(plain, 0.001, same) == f"{faster}, identical output in 36 tests"
    assert verdict(plain, 0.001, rounded) == f"{faster}, equal output in 36 tests, up to rounding"
    assert verdict(plain, 0.001) == f"{faster}, output not compared"
    assert verdict(plain, 0.001, differs) == (
        "3 graphs → 1, but its behavior differs: The result differs."
    )
    assert verdict(plain, 0.003, same) == (
        "3 graphs → 1, but not faster (3.1 ms and 3 ms): `aten.mm` takes 90% of an eager call"
    )
    assert verdict(plain) == (
        "3 graphs, and no fix was found; compiled is 0.97 times as fast as eager: `aten.mm` takes"
        " 90% of an eager call"
    )
    assert verdict(small) == (
        "already one graph; compiled is 1.00 times as fast as eager: too small to gain, because "
        "one eager call takes only 40 µs"
    )


# -- in words -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["library", "hook", "module", "place"])
@pytest.mark.parametrize("grade", ["none", "suggestion", "unsafe"])
def test_a_break_of_a_library_that_nothing_ends_comes_with_the_command_for_an_issue(
    kind: CauseKind, grade: str
) -> None:
    cause = BreakCause("1", kind, "_prepare", "einops/einops.py", 510)
    finding = dataclasses.replace(break_at(4), causes=(cause,))
    candidate = Candidate("r", "Rewrite it", "")
    fix = Fix(candidate, "suggestion", (finding,), (), Judgment(True))
    fixes = {
        "none": (),
        "suggestion": (fix,),
        "unsafe": (dataclasses.replace(fix, grade="unsafe"),),
    }[grade]
    left = Fixed("text\n" * 9, left=(Offered(finding, Search(fixes)),))
    file = FixedFile("my model.py", left.text, left)
    words = fixed_text(file, PLAIN)
    plain = json.loads(fixed_json((file,), "", ()))["files"][0]["left"][0]["upstream"]
    command = "fullgraph repro 'my model.py:5' --issue"
    if kind in ("library", "hook") and grade != "unsafe":
        assert f"  Text for a bug report: {command}" in words.split("\n")
        assert plain == {
            "path": "einops/einops.py",
            "line": 510,
            "function": "_prepare",
            "issue": command,
        }
    else:
        assert "issue" not in words
        assert plain is None


def test_no_command_is_given_for_a_line_of_a_text_that_is_not_written() -> None:
    cause = BreakCause("1", "library", "_prepare", "einops/einops.py", 510)
    finding = dataclasses.replace(break_at(4), causes=(cause,))
    file = FixedFile("m.py", "before\n", Fixed("after\n", left=(Offered(finding),)))
    command = "fullgraph repro m.py:5 --issue"
    assert command not in fixed_text(file, PLAIN)
    written = dataclasses.replace(file, written=True)
    assert command in fixed_text(written, PLAIN)


# -- numerics -------------------------------------------------------------------------------------


class Judge(Engine):
    """Also judges the compiled results of `f`."""

    def __init__(self, verdict: NumericsVerdict) -> None:
        super().__init__(compares_as("same"))
        self.verdict = verdict

    def analyze(self, request: Analyze) -> Asked:
        assert request.parts == ("numerics",)
        return Asked([NumericsJudged(0, "f", RunId("f", part="numerics"), self.verdict)])


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            NumericsVerdict("equal", 3, 1e-8, 1e-8),
            "compiled and eager results are bitwise equal in 3 calls",
        ),
        (
            NumericsVerdict("rounding", 1, 2e-8, 1e-8),
            "not a bug, only rounding: in 1 call, compiled results differ from float64 by up to "
            "1.0e-08 of the largest element, eager results by 2.0e-08",
        ),
        (
            NumericsVerdict("rounding", 3, 0.0, 0.0),
            "not a bug, only rounding: in 3 calls, results differ only where rounding decides, "
            "for example which of two almost equal numbers is larger",
        ),
        (
            NumericsVerdict("unknown", reason="Inductor needs a C++ compiler."),
            "not compared. Inductor needs a C++ compiler.",
        ),
        (NumericsVerdict("wrong", 1), "compiled results are wrong, see the error above"),
    ],
)
def test_verdicts_on_compiled_results(verdict: NumericsVerdict, words: str) -> None:
    done = dataclasses.replace(report(), probe=ProbeInfo("comment", "f32[4]"))
    judged = asyncio.run(judge_numerics(Judge(verdict), request_of("a = 1\n"), [done]))
    assert numerics_text(judged.targets) == f"f (f32[4]), numerics: {words}"
