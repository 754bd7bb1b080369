"""Which targets are traced when the editor and requests want different ones at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from fullgraph.domain.positions import Encoding
from fullgraph.engines import AnalysisRequest, Engine, EngineState, EngineStatus
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.documents import Document, TextChange
from fullgraph.session.request import TraceInputs, analyze_request
from fullgraph.session.settings import Settings, TraceOn
from fullgraph.session.unit_events import RunEnded, TraceDue, UnitEvent
from fullgraph_engine.protocol import Analyze, Analyzed, Failed, TargetsFound

from .loop_clock import passed

TEXT = "class A(nn.Module): pass\nclass B(nn.Module): pass\n"
STATUS = EngineStatus(EngineState.READY, "Ready.", torch="2.13.0", python="3.11")


class HeldEngine:
    """Its analyses go on until the test ends them, or at once when they are cancelled."""

    status = STATUS

    def __init__(self) -> None:
        self.analyses: list[AnalysisRequest] = []

    def analyze(self, request: Analyze) -> AnalysisRequest:
        analysis = AnalysisRequest(
            request, lambda asked: asked.put_event(asked.cancellation_event())
        )
        self.analyses.append(analysis)
        return analysis

    @property
    def traced(self) -> list[tuple[tuple[str, ...], bool]]:
        """Of each run the targets, empty for all, and whether it was left to go on."""
        return [(one.request.only, not one.cancelled) for one in self.analyses]

    async def end(self) -> None:
        last = self.analyses[-1]
        last.put_event(Analyzed(0, last.request.generation, 0.0))
        await passed(0.0)


async def unit_of(
    engine: HeldEngine, trace_on: TraceOn = "change", ended: list[RunEnded] | None = None
) -> AnalysisUnit:
    """One that was opened. ``ended`` gets what it reports of runs that ended."""
    settings = Settings(trace_on=trace_on, forecast=False)

    def emit(unit: AnalysisUnit, event: UnitEvent) -> None:
        if isinstance(event, TraceDue):
            document = unit.document
            request = analyze_request(
                name=document.name,
                text=document.text,
                generation=document.generation,
                settings=settings,
                project=Path("/project"),
                only=event.only,
            )
            unit.traces.begin(event, cast("Engine", engine), request)
        elif isinstance(event, RunEnded) and ended is not None:
            ended.append(event)

    document = Document("file:///project/a.py", TEXT, 1, Encoding.UTF8)
    unit = AnalysisUnit(document, TraceInputs(settings, ()), emit)
    unit.open()
    await passed(0.0)
    return unit


def edit(unit: AnalysisUnit) -> None:
    unit.change([TextChange(TEXT + "class C: pass\n")], unit.document.version + 1)


async def test_a_mistake_of_ours_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ended = HeldEngine(), list[RunEnded]()
    unit = await unit_of(engine, ended=ended)

    def mistaken(event: object) -> None:
        raise KeyError("A")

    monkeypatch.setattr(unit.traces, "apply_event", mistaken)
    engine.analyses[-1].put_event(TargetsFound(0, ()))
    await passed(0.0)
    (run,) = ended
    assert run.failure is not None and "KeyError" in run.failure.reason
    assert engine.analyses[-1].cancelled
    monkeypatch.undo()
    edit(unit)
    await passed(5.0)
    assert engine.traced == [((), False), ((), True)]


async def test_one_target_asked_for_does_not_end_the_trace_of_all() -> None:
    engine = HeldEngine()
    asked = (await unit_of(engine)).analyze(("B",))
    assert engine.traced == [((), True)]
    await engine.end()
    assert asked.result().completed


async def test_one_target_asked_for_does_not_replace_the_trace_of_an_edit() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine)
    await engine.end()
    edit(unit)
    asked = unit.analyze(("B",))
    await passed(0.0)
    assert engine.traced == [((), True), ((), True)]
    await engine.end()
    assert asked.result().completed


async def test_an_edit_has_all_targets_traced_while_one_is_asked_for() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine)
    await engine.end()
    unit.analyze(("B",))
    await passed(0.0)
    edit(unit)
    await passed(60.0)
    assert engine.traced == [((), True), (("B",), False), ((), True)]


async def test_two_targets_asked_for_are_both_traced() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine, "manual")
    first = unit.analyze(("A",))
    await passed(0.0)
    second = unit.analyze(("B",))
    await passed(0.0)
    assert engine.traced == [(("A",), False), (("A", "B"), True)]
    await engine.end()
    assert first.result().completed and second.result().completed


async def test_a_cancelled_request_ends_the_run_that_only_it_wants() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine, "manual")
    first, second = unit.analyze(), unit.analyze()
    await passed(0.0)
    unit.withdraw_request(first)
    assert engine.traced == [((), True)]
    unit.withdraw_request(second)
    assert engine.traced == [((), False)]


async def test_a_cancelled_request_leaves_the_trace_of_an_edit() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine)
    await engine.end()
    edit(unit)
    unit.withdraw_request(unit.analyze())
    await passed(60.0)
    assert engine.traced[1:] == [((), True)]


async def test_a_cancelled_request_leaves_a_run_that_a_change_outside_wants() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine)
    await engine.end()
    asked = unit.analyze()
    await passed(0.0)
    unit.refresh()
    unit.withdraw_request(asked)
    assert engine.traced[1:] == [((), True)]


async def test_a_cancelled_request_leaves_nothing_due() -> None:
    engine = HeldEngine()
    unit = await unit_of(engine, "manual")
    first = unit.analyze(("A",))
    await passed(0.0)
    second = unit.analyze(("B",))
    unit.withdraw_request(first)
    unit.withdraw_request(second)
    await passed(60.0)
    assert engine.traced == [(("A",), False)]


async def test_how_a_run_of_a_text_that_is_gone_failed_is_nobodys_business() -> None:
    engine = HeldEngine()
    ended: list[RunEnded] = []
    unit = await unit_of(engine, ended=ended)
    failed = Failed(0, "The file does not parse.", "")
    engine.analyses[0].put_event(failed)
    edit(unit)
    await passed(0.0)
    assert ended == [RunEnded(None)]
    await passed(60.0)
    engine.analyses[1].put_event(failed)
    await passed(0.0)
    assert ended == [RunEnded(None), RunEnded(failed)]
