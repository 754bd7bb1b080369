"""Unused ignore comments: when they are reported, and how they are removed."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from tests.engine import markers

from fullgraph.cli.check import FileCheck
from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.report import CheckPrinter
from fullgraph.cli.sources import SourceFile
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.engines.engine import Engine
from fullgraph.render.checked import CheckedFile
from fullgraph.results import Results
from fullgraph.session.ignores import UNUSED, unused_ignores
from fullgraph.session.settings import Project, Settings, SettingsSource
from fullgraph.session.trace_extent import TraceExtent
from fullgraph_engine.protocol import (
    Degraded,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Position,
    Range,
    RunId,
    RunLost,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.coverage import Coverage
from fullgraph_engine.protocol.paths import PathReport

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "ignores").glob("*.py"))

# -- with the real engine -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results_by_fixture() -> Mapping[str, CheckedFile]:
    """Results of all fixtures, by name, from one check without and one with forecasts."""
    fixtures = [markers.read(path) for path in FIXTURES]
    found: dict[str, CheckedFile] = {}
    for forecast in (False, True):
        paths = [fixture.path for fixture in fixtures if fixture.forecast is forecast]
        found |= {Path(file.path).stem: file for file in check_files(paths, forecast=forecast)}
    return found


def check_files(paths: Sequence[Path], *, forecast: bool) -> tuple[CheckedFile, ...]:
    own = FileSettings(Project(paths[0].parent, SettingsSource("", {})), Settings())
    check = FileCheck(
        [SourceFile(str(path), path, named=True) for path in paths],
        find_settings=lambda path: own,
        make_engine=lambda own: Engine(Path(sys.executable)),
        listener=CheckPrinter(sys.stdout, "json", "never", quiet=True),
        forecast=forecast,
    )
    return asyncio.run(check.run()).files


@pytest.mark.real_engine
@pytest.mark.timeout(180)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path: Path, results_by_fixture: Mapping[str, CheckedFile]) -> None:
    file = results_by_fixture[path.stem]
    found = [item.finding for item in file.findings if item.finding.code == UNUSED]
    traced = markers.Traced(tuple(found), file.targets)
    difference = markers.compare(markers.read(path), traced)
    assert not difference, f"\n{difference}"


# -- with results of any kind ---------------------------------------------------------------------

TEXT = """\
# fullgraph: f32[4]
def f(x):
    return x + 1  # fullgraph: ignore[GB0059]
"""


def place_on(line: int, start: int, end: int) -> Range:
    return Range(Position(line, start), Position(line, end))


def report(name: str = "f", **changes: Any) -> TargetReport:
    """A report of a target whose trace executed the third line."""
    coverage = Coverage.from_ranges([place_on(2, 11, 16)], [])
    plain = TargetReport(name, "function", place_on(1, 4, 5), "traced", coverage=coverage)
    return dataclasses.replace(plain, **changes)


def targets(*names: str, note: str = "") -> TargetsFound:
    return TargetsFound(
        0, tuple(TargetInfo(name, "function", place_on(1, 4, 5)) for name in names), note
    )


TRACED = (targets("f"), TargetDone(0, report()))


def unused_in(
    text: str,
    results: Results,
    settings: Settings = Settings(),  # noqa: B008
    *degraded: Degraded,
) -> list[Finding]:
    positions = TextPositions(text)
    found = [FileFinding(one, Severity.WARNING, (), "") for one in results.findings()]
    extent = TraceExtent.of_results(results, positions, settings, degraded)
    return list(unused_ignores(found, positions, extent))


def test_a_comment_is_unused_after_a_complete_trace() -> None:
    (finding,) = unused_in(TEXT, Results.from_events(TRACED))
    assert finding.code == UNUSED and finding.unnecessary
    assert finding.range == place_on(2, 18, 45)


def test_a_comment_that_hides_a_finding_is_not_unused() -> None:
    found = FindingFound(0, Finding("graph-break/GB0059", "m", place_on(2, 11, 16), "f"))
    assert unused_in(TEXT, Results.from_events((*TRACED, found))) == []
    other = FindingFound(0, Finding("graph-break/GB0060", "m", place_on(2, 11, 16), "f"))
    assert len(unused_in(TEXT, Results.from_events((*TRACED, other)))) == 1


def test_without_columns_a_part_of_a_line_may_not_have_been_traced() -> None:
    """Python 3.10 does not have columns: a coverage says which lines were traced in part."""
    line = Coverage.from_ranges([place_on(2, 0, 4)], [])
    results = Results.from_events((targets("f"), TargetDone(0, report(coverage=line))))
    assert len(unused_in(TEXT, results)) == 1
    assert unused_in(TEXT.replace("x + 1", "x if x else g(x)"), results) == []


LATE_PATH = PathReport("in training mode", "late", "no time was left")
OTHER = targets("f", "g")
REST = FindingFound(0, Finding("trace/incomplete", "m", place_on(1, 0, 1), "f"))
BAD_PROBE = FindingFound(0, Finding("probe/invalid", "m", place_on(0, 0, 1), "f"))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((OTHER, TRACED[1]), id="a target has not been traced"),
        pytest.param((targets("f", note="Only 1 of 300."), TRACED[1]), id="targets left out"),
        pytest.param((*TRACED, TargetDone(0, report(paths=(LATE_PATH,)))), id="a path was cut off"),
        pytest.param((*TRACED, REST), id="a part of the trace was not recorded"),
        pytest.param((*TRACED, BAD_PROBE), id="a probe was not used"),
        pytest.param((*TRACED, Failed(0, "The engine died.")), id="the file failed"),
        pytest.param((targets("f"), TargetDone(0, report(coverage=None))), id="lines unknown"),
        *(
            pytest.param((OTHER, TRACED[1], TargetDone(0, report("g", status=status))), id=status)
            for status in ("no-probe", "failed", "timeout", "crashed", "cancelled", "skipped")
        ),
    ],
)
def test_unknown_is_not_unused(events: Sequence[Event]) -> None:
    assert unused_in(TEXT, Results.from_events(events)) == []


def test_a_run_in_progress_decides_nothing() -> None:
    results = Results()
    results.begin_run()
    for event in TRACED:
        results.apply_event(event)
    assert unused_in(TEXT, results) == []
    results.complete_run()
    assert len(unused_in(TEXT, results)) == 1
    results.begin_run(only=("f",))
    assert unused_in(TEXT, results) == []
    results.apply_event(TRACED[1])
    results.complete_run()
    assert len(unused_in(TEXT, results)) == 1
    results.begin_run()
    results.interrupt_run()
    results.begin_run(only=("f",))
    results.apply_event(TRACED[1])
    results.complete_run()
    assert unused_in(TEXT, results) == []


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (Settings(), True),
        (Settings(ignore=("GB0060",)), True),
        (Settings(try_dynamic=False), True),
        (Settings(try_paths=False), False),
        (Settings(ignore=("GB0059",)), False),
        (Settings(ignore=("graph-break",)), False),
        (Settings(select=("recompile",)), False),
        (Settings(severity={"graph-break/GB0059": Severity.OFF}), False),
    ],
)
def test_settings_that_hide_findings_decide_nothing(settings: Settings, reported: bool) -> None:
    assert bool(unused_in(TEXT, Results.from_events(TRACED), settings)) is reported


def test_a_torch_that_does_not_show_breaks_decides_nothing() -> None:
    results = Results.from_events(TRACED)
    assert unused_in(TEXT, results, Settings(), Degraded("breaks", "")) == []
    assert len(unused_in(TEXT, results, Settings(), Degraded("compliance", ""))) == 1


@pytest.mark.parametrize(
    ("codes", "setting", "forecast", "reported"),
    [
        ("[guard/specialized-dimension]", {}, None, True),
        ("[guard/specialized-dimension]", {"try_dynamic": False}, None, False),
        ("[recompile]", {}, None, False),
        ("[recompile]", {}, "It was stopped: time limit.", False),
        ("[recompile]", {}, "", True),
        ("[every-size]", {}, "", True),
        ("", {}, None, False),
        ("", {}, "", True),
        ("", {"try_dynamic": False}, "", False),
        ("[export]", {}, "", False),
        ("[export]", {"export": True}, "", True),
        ("[guard]", {}, "", False),
        ("[program]", {}, "", False),
    ],
)
def test_codes_are_decided_by_the_traces_that_look_for_them(
    codes: str, setting: dict[str, Any], forecast: str | None, reported: bool
) -> None:
    made = [ForecastFound(0, "f", RunId("f"), note=forecast)] if forecast is not None else []
    results = Results.from_events((*TRACED, *made))
    text = TEXT.replace("[GB0059]", codes)
    assert bool(unused_in(text, results, Settings(**setting))) is reported


def test_a_lost_run_decides_nothing_of_what_it_looks_for() -> None:
    lost = RunLost(0, RunId("f", 0, "second"))
    results = Results.from_events((*TRACED, ForecastFound(0, "f", RunId("f")), lost))
    stored = Results.from_events(results.list_events(forecasts=True))
    for one in (results, stored):
        assert len(unused_in(TEXT, one)) == 1
        for codes in ("", "[guard/specialized-dimension]"):
            assert unused_in(TEXT.replace("[GB0059]", codes), one) == []


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("x + 1  # fullgraph: ignore[GB0059]", "x + 1"),
        ("x + 1\t# fullgraph: ignore[GB0059]  \r", "x + 1\r"),
        ('"é"  # fullgraph: ignore[GB0059]', '"é"'),
        ("x + 1  # fullgraph: ignore[GB0059]  # as é", "x + 1  # as é"),
        ("x + 1  # noqa  # fullgraph: ignore[GB0059]", "x + 1  # noqa"),
        ("x + 1  # é  # fullgraph: ignore[GB0059, op]", "x + 1  # é"),
        ("x + 1  # fullgraph: ignore[GB0059, GB0070]", "x + 1  # fullgraph: ignore[GB0070]"),
        ("x + 1  # fullgraph: ignore[GB0070,GB0059] # a", "x + 1  # fullgraph: ignore[GB0070] # a"),
        (
            "x + 1  # fullgraph: ignore[op,  graph-break/GB0070, GB0059, recompile]",
            "x + 1  # fullgraph: ignore[graph-break/GB0070, recompile]",
        ),
    ],
)
def test_the_fix_removes_what_is_unused_and_nothing_else(line: str, fixed: str) -> None:
    start = "# fullgraph: f32[4]\ndef f(x):\n    return "
    text = f"{start}{line}\n# end"
    found = FindingFound(0, Finding("graph-break/GB0070", "m", place_on(2, 4, 5), "f"))
    used = (found,) if "GB0070" in line else ()
    (finding,) = unused_in(text, Results.from_events((*TRACED, *used)))
    ((edit,),) = (fix.edits for fix in finding.fixes)
    positions = TextPositions(text)
    first, last = positions.offset(edit.range.start), positions.offset(edit.range.end)
    assert text[:first] + edit.text + text[last:] == f"{start}{fixed}\n# end"
    assert finding.unnecessary is ("fullgraph" not in fixed)


# -- in an editor ---------------------------------------------------------------------------------

NET = """\
class Net(nn.Module):
    call()  # fullgraph: ignore[GB0001]
    other()  # fullgraph: ignore[GB0002, GB0059]  # break: Other
    rest()  # never
"""
COMMENT = "# fullgraph: ignore[GB0001]"
CODES = "# fullgraph: ignore[GB0002, GB0059]"
FIRST = ("Unused ignore comment: it does not hide a finding on this line", COMMENT)
SECOND = ("Unused in this ignore comment: `GB0002`", CODES)


async def test_an_unused_comment_is_faded_and_removed_by_a_quick_fix(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, FIRST, SECOND)
    whole, part = await editor.diagnostics(uri)
    assert whole.severity == types.DiagnosticSeverity.Hint
    assert list(whole.tags) == [types.DiagnosticTag.Unnecessary]
    assert not part.tags
    (action,) = await editor.actions(uri, COMMENT)
    assert action.title == "Remove unused ignore comment"
    (edit,) = editor.edits(uri, action)
    assert editor.at(uri, edit.range) == f"  {COMMENT}" and edit.new_text == ""
    editor.edit(uri, f"  {COMMENT}", "")
    await editor.until_seen(uri, SECOND)


async def test_an_unused_comment_stays_faded_while_the_file_is_traced_again(
    editor: Any, counter: Any
) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, FIRST, SECOND)
    editor.edit(uri, "rest()", "more()  # slow: 5\n    rest()")
    await editor.until(lambda: counter.analyzed == 2)
    assert await editor.seen(uri) == [FIRST, SECOND]
    # A line with another text may have other findings.
    editor.edit(uri, "call()", "called()")
    await editor.until_seen(uri, SECOND)


async def test_a_comment_is_not_faded_after_an_incomplete_trace(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, FIRST, SECOND)
    editor.edit(uri, "(nn.Module):", "(nn.Module):  # stub: failed")
    await editor.until_seen(uri)
