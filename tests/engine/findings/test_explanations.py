"""Findings about sizes are told also where nothing can be explained."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fullgraph_engine import shapes, targets, tracing
from fullgraph_engine.findings import explanations, runs
from fullgraph_engine.protocol import Finding

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]

TEXT = """\
# fullgraph: f32[b=6, 4]
def pinned(x):
    y = x.cos()
    if x.shape[0] == 6:
        return y * 2
    return y
"""
PLAIN = "The code's conditions on `x.shape[0]` allow only the value 6."
EXPLAINED = "became 6 at line 4 because `x.shape[0] == 6` had to be true"


def run(text: str, path: str, emit: Callable[[Finding], None]) -> runs.RunOutcome:
    module = types.ModuleType("pinned")
    exec(compile(text, path, "exec"), module.__dict__)
    (target,) = targets.discover(text, path).targets
    (probe,) = targets.plan_probes(target, module.__dict__)
    tracee = targets.Tracee(target, probe, module.__dict__, path, text, "fake")
    return runs.run_target(tracee, "first", emit)


def finding_of(text: str, path: str) -> Finding:
    (finding,) = run(text, path, lambda _: None).findings
    assert finding.code == "guard/specialized-dimension"
    return finding


@pytest.fixture
def path(tmp_path: Any) -> str:
    written = tmp_path / "pinned.py"
    written.write_text(TEXT)
    return str(written)


def test_the_lines_stand_in_place_of_the_short_reason(path: str) -> None:
    finding = finding_of(TEXT, path)
    assert EXPLAINED in finding.explanation
    assert PLAIN not in finding.explanation
    assert finding.notes == ()
    assert [place.range.start.line for place in finding.related] == [3, 2]


TWO = """\
# fullgraph: f32[b=6, 4]
def pinned(x):
    y = x.cos()
    if x.shape[0] == 6:
        print("a break")
        return y * 2
    return y
"""


def test_nothing_waits_for_what_explains_a_finding(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, bool]] = []

    def emit(finding: Finding) -> None:
        told.append((finding.code, EXPLAINED in finding.explanation))

    def explain_event(*arguments: Any) -> Any:
        told.append(("explaining", False))
        return explain(*arguments)

    explain = shapes.explain_symbol
    monkeypatch.setattr(shapes, "explain_symbol", explain_event)
    run(TWO, path, emit)
    first, second, *rest = told
    assert {first, second} == {
        ("graph-break/GB0059", False),
        ("guard/specialized-dimension", False),
    }
    # What a break costs is known in the end.
    assert rest == [
        ("explaining", False),
        ("graph-break/GB0059", False),
        ("guard/specialized-dimension", True),
    ]


def failing(*_: object) -> None:
    raise RuntimeError("no way\nat all")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("EVENTS", 2, "operations on sizes"),
        ("SECONDS", 0.0, "the search would take too long"),
        ("explain_symbol", failing, "no way."),
    ],
)
def test_without_them_the_finding_has_its_reason_and_a_note(
    path: str, name: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes if name == "explain_symbol" else explanations, name, value)
    finding = finding_of(TEXT, path)
    assert PLAIN in finding.explanation
    assert finding.related == ()
    (note,) = finding.notes
    assert words in note


def test_nothing_is_recorded_where_torch_lacks_something(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "missing_names", lambda: ("This torch has no recording.",))
    finding = finding_of(TEXT, path)
    assert PLAIN in finding.explanation
    assert finding.notes == ()


def test_two_may_record_at_once() -> None:
    x = torch.ones(6, 4)
    with tracing.tensor_mode(False), shapes.record_tapes() as outer:
        tracing.trace(torch.cos, (x,), {}, dynamic=[(x, 0)])
        torch._dynamo.reset()
        with shapes.record_tapes() as inner:
            tracing.trace(torch.sin, (x,), {}, dynamic=[(x, 0)])
    assert len(outer) == 2
    assert inner == outer[1:]
    assert all(tape.live is not None and not tape.live.should_record_events for tape in outer)


def test_time_that_ran_out_in_the_search_leaves_the_last_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def paired(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).reshape(6, 2, 8)

    x, y = torch.ones(6, 16), torch.ones(6, 16)
    with tracing.tensor_mode(False), shapes.record_tapes() as tapes:
        recording = tracing.trace(paired, (x, y), {}, dynamic=[(x, 0), (y, 0)])
    (symbol,) = {s.name for s in recording.symbols if s.source == "L['x'].size()[0]"}
    full = shapes.explain_symbol(tapes[-1], symbol)
    assert full is not None
    assert len(full.steps) == 2
    assert full.unexplained == ""

    def late(*_: object) -> None:
        raise shapes.OutOfTime

    monkeypatch.setattr("fullgraph_engine.shapes.explanation._holds_without", late)
    short = shapes.explain_symbol(tapes[-1], symbol)
    assert short is not None
    assert short.steps == full.steps[-1:]
    assert short.unexplained
