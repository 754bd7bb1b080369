"""The limits of the background work on fixes, and fixes that move with the text."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

import pytest

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.fixes.candidate import Candidate, edits_between
from fullgraph.fixes.metering import BUSY_NICE, MeteredTracer, ProcessorMeter
from fullgraph.fixes.moving import changed_lines, move_fix
from fullgraph.fixes.tracing import Judgment
from fullgraph.fixes.verification import Fix, Search
from fullgraph.session import fix_jobs
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Compare,
    Compared,
    Event,
    Finding,
    Position,
    Range,
)

REQUEST = Analyze(0, "v1", "/net.py", "", nice=15)


class Answer:
    """A request that ends with an event, or never without one."""

    def __init__(self, last: Event | None) -> None:
        self.last, self.cancelled = last, False

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self.last is None:
            await asyncio.Event().wait()
        else:
            yield self.last

    def cancel(self) -> None:
        self.cancelled = True


class Traces:
    def __init__(self, *answers: Event | None) -> None:
        self.answers, self.requests = list(answers), list[Analyze | Compare]()
        self.last: Answer | None = None

    def analyze(self, request: Analyze) -> Answer:
        self.requests.append(request)
        self.last = Answer(self.answers.pop(0))
        return self.last

    def compare(self, request: Compare) -> Answer:
        self.requests.append(request)
        self.last = Answer(self.answers.pop(0))
        return self.last


async def test_processor_time_counts_and_wall_time_does_not() -> None:
    meter, measured = ProcessorMeter(), list[float]()
    traces = Traces(Analyzed(1, "v1", 60.0, cpu=2.0), Compared(2, "same", seconds=30.0, cpu=3.0))
    tracer = MeteredTracer(
        traces, meter, is_busy=lambda: False, on_measured=lambda: measured.append(meter.cpu)
    )
    assert [event async for event in tracer.analyze(REQUEST)]
    assert [event async for event in tracer.compare(Compare(0, REQUEST, "f", ""))]
    assert (meter.cpu, meter.wall) == (5.0, 90.0)
    assert measured == [2.0, 5.0]


async def test_where_no_processor_time_is_measured_wall_time_counts() -> None:
    meter = ProcessorMeter()
    tracer = MeteredTracer(Traces(Analyzed(1, "v1", 6.0)), meter, is_busy=lambda: False)
    assert [event async for event in tracer.analyze(REQUEST)]
    assert meter.cpu == 6.0


async def test_a_cancelled_request_counts() -> None:
    meter = ProcessorMeter(wall=10.0, cpu=5.0)
    traces = Traces(None)
    asked = MeteredTracer(traces, meter, is_busy=lambda: False).analyze(REQUEST)
    await asyncio.sleep(0.02)
    asked.cancel()
    asked.cancel()
    assert traces.last is not None and traces.last.cancelled
    assert 10.02 <= meter.wall < 15.0
    assert meter.cpu - 5.0 == (meter.wall - 10.0) / 2


async def test_on_a_busy_machine_traces_are_not_starved() -> None:
    idle, busy = Analyzed(1, "v1", 3.0, cpu=2.9), Analyzed(2, "v1", 300.0, cpu=2.9)
    traces = Traces(idle, busy, idle, idle)
    tracer = MeteredTracer(traces, ProcessorMeter(), is_busy=lambda: False)
    for _ in range(3):
        assert [event async for event in tracer.analyze(REQUEST)]
    assert [one.nice for one in traces.requests if isinstance(one, Analyze)] == [15, 15, BUSY_NICE]
    tracer = MeteredTracer(traces, ProcessorMeter(), is_busy=lambda: True)
    tracer.analyze(REQUEST)
    assert isinstance(traces.requests[-1], Analyze)
    assert traces.requests[-1].nice == BUSY_NICE


# -- the search for the fixes of one text ---------------------------------------------------------


class Bar:
    """The progress that a search shows."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, int]] = []

    def report(self, words: str, percentage: int) -> None:
        self.shown.append((words, percentage))

    def end(self, words: str = "") -> None:
        pass


def item_at(line: int, code: str = "graph-break/GB0170") -> FileFinding:
    place = Range(Position(line, 4), Position(line, 7))
    finding = Finding(code, f"Break {line}", place, "f")
    return FileFinding(finding, Severity.WARNING, ("f",), "", (finding,), id=f"id{line}")


class Searched:
    """Stands in for the verification: each search traces once, and finds what the test says."""

    found: ClassVar[dict[str, list[Search]]] = {}

    def __init__(self, tracer: MeteredTracer, request: Analyze) -> None:
        self._tracer, self._request = tracer, request

    async def fixes(self, finding: Finding, targets: Sequence[str]) -> Search:
        async for _ in self._tracer.analyze(self._request):
            await asyncio.sleep(0)
        found = self.found.get(finding.message, [])
        return found.pop(0) if found else Search()

    async def together(self, fixes: Sequence[Fix]) -> Fix | None:
        return fixes[0] if fixes else None


async def search(
    monkeypatch: pytest.MonkeyPatch,
    items: Sequence[FileFinding],
    *,
    wall: float,
    cpu: float,
    preferred: frozenset[str] = frozenset(),
    demanded: frozenset[str] | None = None,
) -> tuple[Any, Traces, Bar]:
    monkeypatch.setattr("fullgraph.fixes.verification.Verifier", Searched)
    monkeypatch.setattr("fullgraph.fixes.metering.is_machine_busy", lambda: False)
    attempt = fix_jobs._FixAttempt(("hash", None), "", (), preferred=preferred, demanded=demanded)
    traces, bar = Traces(*[Analyzed(1, "v1", wall, cpu=cpu)] * 20), Bar()
    wanted = {item.id: item for item in items}
    engine: Any = traces
    await fix_jobs._FixSearch(attempt, engine, REQUEST, wanted, bar, lambda: None).run()
    assert attempt.is_complete == (demanded is None)
    return attempt, traces, bar


async def test_on_a_busy_machine_a_finding_without_a_fix_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Searched, "found", {"Break 2": [Search(), Search((FIX,))]})
    items = [item_at(2), item_at(5)]
    attempt, traces, bar = await search(monkeypatch, items, wall=90.0, cpu=2.0)
    assert attempt.fixes == {"id2": (FIX,), "id5": ()}
    assert attempt.together is FIX
    assert len(traces.requests) == 4
    words = [words for words, _ in bar.shown]
    assert words[0] == "line 3 (1 of 2), check 1" and words[1] == "line 6 (1 of 2), check 1"


async def test_on_an_idle_machine_one_try_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Searched, "found", {"Break 2": [Search(), Search((FIX,))]})
    attempt, traces, _ = await search(monkeypatch, [item_at(2)], wall=2.1, cpu=2.0)
    assert attempt.fixes == {"id2": ()}
    assert len(traces.requests) == 1


async def test_the_finding_at_the_cursor_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [item_at(line) for line in range(3)]
    _, _, bar = await search(monkeypatch, items, wall=2.0, cpu=2.0, preferred=frozenset({"id2"}))
    assert [words.partition(" (")[0] for words, _ in bar.shown] == ["line 3", "line 1", "line 2"]
    shown = [percentage for _, percentage in bar.shown]
    assert shown == sorted(shown)


async def test_breaks_come_before_recompiles_except_at_the_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [item_at(0, "recompile/size"), item_at(1), item_at(2, "recompile/value")]
    for preferred, order in (("", "213"), ("id2", "321")):
        _, _, bar = await search(
            monkeypatch, items, wall=2.0, cpu=2.0, preferred=frozenset({preferred})
        )
        assert [words.split()[1] for words, _ in bar.shown] == list(order)


async def test_while_a_function_is_measured_only_its_findings_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [item_at(line) for line in range(3)]
    both = dataclasses.replace(FIX, findings=(items[1].finding, items[2].finding))
    monkeypatch.setattr(Searched, "found", {"Break 1": [Search((both,))]})
    demanded = frozenset({"id1", "id2"})
    attempt, _, _ = await search(monkeypatch, items, wall=2.0, cpu=2.0, demanded=demanded)
    assert attempt.fixes.keys() == {"id1"}


async def test_a_fix_that_removes_another_finding_is_offered_there_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = (item_at(line) for line in range(3))
    both = dataclasses.replace(FIX, findings=(first.finding, second.finding))
    monkeypatch.setattr(Searched, "found", {"Break 0": [Search((both,))]})
    attempt, _, bar = await search(monkeypatch, [first, second, third], wall=2.0, cpu=2.0)
    assert attempt.find_fixes(second) == (both,)
    assert attempt.find_fixes(third) == ()
    # A finding that some fix removes is searched last.
    assert [words.partition(" (")[0] for words, _ in bar.shown] == ["line 1", "line 3", "line 2"]


async def test_when_the_processor_time_is_up_fixes_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Searched, "found", {"Break 0": [Search((FIX,))]})
    items = [item_at(line) for line in range(4)]
    cpu = fix_jobs.CPU_SECONDS / 2
    attempt, traces, _ = await search(monkeypatch, items, wall=cpu, cpu=cpu)
    assert attempt.fixes == {"id0": (FIX,), "id1": ()}
    assert len(traces.requests) == 2


async def test_wall_time_alone_does_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Searched, "found", {"Break 3": [Search((FIX,))]})
    items = [item_at(line) for line in range(4)]
    attempt, _, _ = await search(monkeypatch, items, wall=200.0, cpu=2.0)
    assert attempt.fixes["id3"] == (FIX,)


# -- fixes that move with the text ----------------------------------------------------------------

BEFORE = "import a\n\n\ndef f(x):\n    bad(x)\n    return x\n\n\ndef g(x):\n    return x\n"


def fix_of(before: str, after: str, line: int) -> Fix:
    finding = Finding(
        "graph-break/GB0170", "It breaks", Range(Position(line, 4), Position(line, 7))
    )
    candidate = Candidate("rule", "Fix it", after)
    return Fix(candidate, "safe", (finding,), edits_between(before, after), Judgment(True))


FIX = fix_of(BEFORE, BEFORE.replace("bad", "good").replace("import a", "import a\nimport b"), 4)


def test_a_fix_moves_past_lines_that_come_before_it() -> None:
    now = BEFORE.replace("\n\n\ndef f", "\n\n\ndef e(): ...\n\n\ndef f")
    moved = move_fix(FIX, changed_lines(BEFORE, now), now)
    assert moved is not None
    wanted = now.replace("bad", "good").replace("import a", "import a\nimport b")
    assert moved.candidate.text == wanted
    assert moved.findings[0].range.start == Position(7, 4)


def test_a_fix_stays_where_it_is_before_other_lines() -> None:
    now = BEFORE.replace("def g(x):\n    return x", "def g(x):\n    return x + 1\n# Comment")
    moved = move_fix(FIX, changed_lines(BEFORE, now), now)
    assert moved is not None
    assert moved.edits == FIX.edits and moved.findings == FIX.findings
    assert moved.candidate.text == now.replace("bad", "good").replace(
        "import a", "import a\nimport b"
    )


def test_a_fix_of_a_changed_line_is_gone() -> None:
    now = BEFORE.replace("bad(x)", "bad(x + 1)")
    assert move_fix(FIX, changed_lines(BEFORE, now), now) is None
    # This fix edits two places, and one of them has changed.
    fix = fix_of(BEFORE, BEFORE.replace("bad", "good").replace("import a", "import b"), 4)
    now = BEFORE.replace("import a", "import aa")
    assert move_fix(fix, changed_lines(BEFORE, now), now) is None
