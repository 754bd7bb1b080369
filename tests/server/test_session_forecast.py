"""Forecasts: made after the trace while the text rests, moved with it, replaced in one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.render.forecasts import forecast_clause, forecast_page
from fullgraph.results.file_results import Results
from fullgraph.session.scheduling import Turns
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    ForecastFound,
    ForecastRow,
    Position,
    Range,
    RunId,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)

NAME = Range(Position(0, 4), Position(0, 5))


def at(line: int) -> Range:
    return Range(Position(line, 0), Position(line, 4))


def finding(code: str, line: int, run: RunId, target: str = "f") -> Finding:
    return Finding(code, "words", at(line), target, identity=f"{code}{line}", run=run)


def done(target: str = "f", status: Any = "traced") -> TargetDone:
    return TargetDone(1, TargetReport(target, "function", NAME, status))


def foretold(*lines: int, target: str = "f", probe: int = 0) -> ForecastFound:
    run = RunId(target, probe, "forecast")
    rows = (ForecastRow("size", f"x{line}", "4", ("5",), "always", (), at(line)) for line in lines)
    found = (finding("recompile/every-size", line, run, target) for line in lines)
    return ForecastFound(1, target, run, tuple(rows), tuple(found))


BROKEN = FindingFound(1, finding("graph-break/GB1", 2, RunId("f")))


def forecast_once() -> Results:
    results = Results()
    results.begin_run()
    results.apply_event(BROKEN)
    results.apply_event(done())
    results.complete_run()
    assert results.targets_without_forecast() == ("f",)
    results.apply_event(foretold(3))
    results.forecasts.drop_outdated()
    assert results.targets_without_forecast() == ()
    return results


def shown(results: Results) -> list[tuple[str, int]]:
    return sorted((one.code, one.range.start.line) for one in results.findings())


def rows(results: Results, target: str = "f") -> list[tuple[str, int | None]]:
    forecast = results.forecasts.find(target)
    assert forecast is not None
    made = forecast.rows
    return [(row.name, row.range.start.line if row.range else None) for row in made]


EVERY = "recompile/every-size"


def test_a_run_keeps_the_forecast_until_there_is_another() -> None:
    results = forecast_once()
    results.begin_run()
    results.apply_event(done())
    assert shown(results) == [(EVERY, 3)]
    results.complete_run()
    assert shown(results) == [(EVERY, 3)]
    assert results.targets_without_forecast() == ("f",)
    results.apply_event(foretold(4))
    assert shown(results) == [(EVERY, 4)]


def test_findings_and_rows_move_with_the_text() -> None:
    results = forecast_once()
    results.apply_edits([AppliedEdit(Position(1, 0), Position(1, 0), Position(2, 0))], "f.py")
    assert shown(results) == [("graph-break/GB1", 3), (EVERY, 4)]
    assert rows(results) == [("x3", 4)]
    # What is edited itself is not claimed of any place any more.
    results.apply_edits([AppliedEdit(Position(4, 1), Position(4, 2), Position(4, 2))], "f.py")
    assert shown(results) == [("graph-break/GB1", 3)]
    assert rows(results) == [("x3", None)]


def test_a_forecast_that_finds_nothing_replaces_one_that_did() -> None:
    results = forecast_once()
    results.begin_run()
    results.apply_event(done())
    results.complete_run()
    results.apply_event(foretold())
    assert shown(results) == []


def test_one_that_was_not_made_again_goes_when_the_others_are() -> None:
    results = forecast_once()
    results.begin_run()
    results.apply_event(done(status="failed"))
    results.complete_run()
    assert results.targets_without_forecast() == ()
    assert shown(results) == [(EVERY, 3)]
    assert results.forecasts.drop_outdated()
    assert shown(results) == []
    assert not results.forecasts.drop_outdated()


def test_a_target_that_is_gone_takes_its_forecast_along() -> None:
    results = forecast_once()
    results.begin_run()
    results.apply_event(TargetsFound(1, (TargetInfo("g", "function", NAME),)))
    assert shown(results) == []


def test_the_forecasts_of_all_probes_are_one() -> None:
    results = forecast_once()
    results.apply_event(foretold(5, probe=1))
    assert rows(results) == [("x3", 3), ("x5", 5)]
    results.apply_event(foretold(6, probe=1))
    assert rows(results) == [("x3", 3), ("x6", 6)]


def test_a_run_of_one_target_leaves_the_forecasts_of_others() -> None:
    results = Results()
    results.begin_run()
    for name in ("f", "g"):
        results.apply_event(done(name))
    results.complete_run()
    for name in ("f", "g"):
        results.apply_event(foretold(3, target=name))
    results.begin_run(only=["g"])
    results.apply_event(done("g"))
    results.complete_run()
    assert results.targets_without_forecast() == ("g",)


def test_an_edit_outdates_all() -> None:
    results = forecast_once()
    results.apply_edits([AppliedEdit(Position(9, 0), Position(9, 0), Position(9, 1))], "f.py")
    assert results.targets_without_forecast() == ("f",)


def test_a_copy_stays_as_it_is() -> None:
    results = forecast_once()
    copy = results.snapshot()
    results.apply_edits([AppliedEdit(Position(1, 0), Position(1, 0), Position(2, 0))], "f.py")
    assert rows(copy) == [("x3", 3)]
    assert copy.targets_without_forecast() == ()


def test_they_are_shown_only_where_they_are_wanted() -> None:
    found = forecast_once().findings(with_forecasts=False)
    assert [one.code for one in found] == ["graph-break/GB1"]


# -- whose turn it is -------------------------------------------------------------------------


class Text:
    def __init__(self, *, willing: bool = True) -> None:
        self.turns, self.willing = 0, willing

    def take_turn(self) -> bool:
        self.turns += 1
        return self.willing


async def test_one_text_at_a_time_the_first_that_is_due() -> None:
    turns: Turns[Text] = Turns(lambda: False, Text.take_turn)
    now = asyncio.get_running_loop().time()
    first, second = Text(), Text()
    busy = Text()
    turns.request_turn(busy, now)
    turns.request_turn(second, now - 1)
    turns.request_turn(first, now - 2)
    assert (busy.turns, first.turns, second.turns) == (1, 0, 0)
    turns.turn_ended(busy)
    assert (first.turns, second.turns) == (1, 0)
    turns.turn_ended(busy)  # it has ended before
    assert second.turns == 0
    turns.turn_ended(first)
    assert second.turns == 1


async def test_nobody_has_a_turn_while_something_is_traced() -> None:
    traced = True
    turns: Turns[Text] = Turns(lambda: traced, Text.take_turn)
    text = Text()
    turns.request_turn(text, 0.0)
    assert text.turns == 0
    traced = False
    turns.begin_next()
    assert text.turns == 1


async def test_a_text_that_does_not_rest_yet_waits() -> None:
    turns: Turns[Text] = Turns(lambda: False, Text.take_turn)
    loop = asyncio.get_running_loop()
    text, withdrawn = Text(), Text()
    turns.request_turn(text, loop.time() + 0.05)
    turns.request_turn(withdrawn, loop.time() + 0.01)
    turns.withdraw(withdrawn)
    assert text.turns == 0
    while not text.turns:
        await asyncio.sleep(0.01)
    assert withdrawn.turns == 0


async def test_one_that_has_nothing_to_do_gives_way() -> None:
    turns: Turns[Text] = Turns(lambda: False, Text.take_turn)
    turns.request_turn(Text(willing=False), 0.0)
    text = Text()
    turns.request_turn(text, 0.0)
    assert text.turns == 1


# -- in an editor -----------------------------------------------------------------------------

TEXT = """\
import torch
from torch import nn

class Net(nn.Module):
    call()  # break: It breaks here
    x.view(4)  # forecast: x.shape[0]

class Slow(nn.Module):
    y.view(4)  # forecast: y.shape[0] slow
"""
BREAK = ("It breaks here", "call()")
X = ("Each new value of `x.shape[0]` recompiles", "x.view(4)")
Y = ("Each new value of `y.shape[0]` recompiles", "y.view(4)")


@pytest.fixture
async def editor(open_editor: Callable[..., Any]) -> Any:
    return await open_editor(configuration={"forecast": True})


async def test_it_follows_the_trace_and_leaves_the_editor_idle(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until(lambda: "forecast" in counter.words)
    await editor.until_state("ready")
    assert not editor.statuses[-1]["busy"]
    states = len(editor.statuses)
    await editor.until_seen(uri, BREAK, X, Y)
    assert counter.words == ["start", "analyze", "forecast", "forecast-made"]
    assert len(editor.statuses) == states


async def test_saving_the_same_text_does_nothing_to_it(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until(lambda: "forecast" in counter.words)
    editor.save(uri)
    await editor.until_seen(uri, BREAK, X, Y)
    editor.save(uri)
    await editor.until_rest()
    assert counter.words == ["start", "analyze", "forecast", "forecast-made"]
    assert await editor.seen(uri) == [BREAK, X, Y]


async def test_an_edit_ends_it_and_another_one_follows(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until(lambda: "forecast" in counter.words)
    editor.edit(uri, "import torch\n", "import torch, os\n")
    await editor.until(lambda: "forecast-cancelled" in counter.words)
    await editor.until_seen(uri, BREAK, X, Y)
    assert counter.words[2:] == [
        "forecast",
        *("cancel", "forecast-cancelled", "analyze", "forecast", "forecast-made"),
    ]


@pytest.mark.slow
async def test_an_edit_that_is_taken_back_needs_no_trace(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until_seen(uri, BREAK, X, Y)
    editor.edit(uri, "x.view(4)", "x.view(44)")
    editor.edit(uri, "x.view(44)", "x.view(4)")
    await editor.until_seen(uri, BREAK, X, Y)

    # Texts have their forecasts in the order of their last edits: another one here would be made
    # before that of a text that is edited later.
    def forecasts() -> list[str]:
        return [line.split()[2] for line in counter.lines if line.startswith("forecast ")]

    other = editor.open("other.py", "class Other(nn.Module):\n    z.view(4)\n")
    await editor.until(lambda: forecasts().count("Other") == 1)
    editor.edit(other, "z.view(4)", "z.view(44)")
    await editor.until(lambda: forecasts().count("Other") == 2)
    assert forecasts() == ["Net,Slow", "Other", "Other"]
    assert counter.words.count("analyze") == 3


async def test_old_ones_stay_until_there_are_new_ones(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until_seen(uri, BREAK, X, Y)
    editor.edit(uri, "y.view(4)  # forecast: y.shape[0] slow", "y.view(5)")
    editor.edit(uri, "call()", "call(1)")
    broken = ("It breaks here", "call(1)")
    await editor.until(lambda: counter.words.count("analyze") == 2)
    while counter.words.count("forecast-made") < 2:
        assert X in await editor.seen(uri)
    await editor.until_seen(uri, broken, X)


async def test_a_closed_text_ends_it(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until(lambda: "forecast" in counter.words)
    editor.close(uri)
    await editor.until(lambda: "forecast-cancelled" in counter.words)


async def test_it_is_a_setting_that_traces_nothing_again(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until_seen(uri, BREAK, X, Y)
    editor.configure(interpreter=sys.executable, forecast=False)
    await editor.until_seen(uri, BREAK)
    editor.configure(interpreter=sys.executable, forecast=True)
    await editor.until_seen(uri, BREAK, X, Y)
    assert counter.words.count("analyze") == counter.words.count("forecast") == 1


async def test_the_lens_and_the_hover_of_a_target_tell_of_it(editor: Any) -> None:
    uri = editor.open("model.py", TEXT)
    await editor.until_seen(uri, BREAK, X, Y)
    titles = await editor.titles(uri)
    assert titles[0].endswith(" · recompiles on each new value of x.shape[0]")
    hover = await editor.hover(uri, "class ", "Net")
    assert "x.shape[0]" in hover.contents.value
    assert "4 → 5, 6: " in hover.contents.value
    assert "(too big)" in hover.contents.value
    assert "before the last trace" not in hover.contents.value
    editor.edit(uri, "import torch\n", "import torch, os\n")
    hover = await editor.hover(uri, "class ", "Net")
    assert "before the last trace" in hover.contents.value
    assert await editor.hover(uri, "call", "()") is None


def row(verdict: Any, name: str = "x.shape[0]", kind: Any = "size", **more: Any) -> ForecastRow:
    return ForecastRow(kind, name, "4", ("5", "6"), verdict, **more)


def test_a_lens_tells_only_what_compiles_again_each_time() -> None:
    assert forecast_clause([row("stays"), row("once"), row("conditional")]) == ""
    assert forecast_clause([row("always"), row("always", "n")]) == (
        "recompiles on each new value of x.shape[0], n"
    )
    five = forecast_clause([row("always", name) for name in "abcde"])
    assert five.endswith("of a, b, c and 2 more")
    assert forecast_clause([row("always"), row("always", "the same inputs", "call")]) == (
        "recompiles at every call"
    )


def test_a_page_tells_all() -> None:
    rows = [
        row("stays"),
        row("always", "n", reasons=("a", "b", "c", "d")),
        row("once", "flag", "flag"),
        ForecastRow("call", "the same inputs", "", ("again",), "once"),
    ]
    assert forecast_page("Net", rows, ["Skipped (time limit reached): y."], fresh=True) == (
        "**Predicted recompiles in further calls of `Net`**\n\n"
        "- `x.shape[0]`: 4 → 5, 6: does not recompile\n"
        "- `n`: 4 → 5, 6: **recompiles on each new value** (a; b; c; and 1 more)\n"
        "- `flag`: 4 → 5, 6: recompiles once for each value\n"
        "- the same inputs again: recompiles once, then works for all values\n\n"
        "Skipped (time limit reached): y."
    )
    assert forecast_page("f", [], ["It was stopped."], fresh=False) == (
        "**Predicted recompiles in further calls of `f`** (predicted before the last trace)"
        "\n\nIt was stopped."
    )
