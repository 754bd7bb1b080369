"""What runs of further parts find: forecasts, other paths, calls of other targets."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.engine.hosts import AnyFloat, Engine, Result, inside, spot

from fullgraph_engine.protocol import (
    Analyzed,
    CalledAgain,
    Cancel,
    Failed,
    ForecastFound,
    GivenCall,
    GivenCalls,
    Limits,
    Log,
    Position,
    RunId,
    SelfCheck,
    SelfChecked,
    TargetDone,
    TargetsFound,
)


def forecasts(result: Result) -> dict[RunId, ForecastFound]:
    return {event.run: event for event in result.events if isinstance(event, ForecastFound)}


def test_a_forecast_alone_reports_no_target_and_tells_all_in_one(engine: Engine) -> None:
    text = "def f():  # target 2\n    return 1\n"
    result = engine.analyze(text, parts=("forecast",), nice=3)
    assert not result.reports
    assert not result.findings
    made = forecasts(result)
    assert set(made) == {RunId("f", 0, "forecast"), RunId("f", 1, "forecast")}
    one = made[RunId("f", 0, "forecast")]
    assert [(f.code, f.message, f.run) for f in one.findings] == [
        ("stub/forecast", "f auto 1", RunId("f", 0, "forecast"))
    ]
    assert (one.note, one.seconds) == ("noted", 1.0)
    assert [row.name for row in one.rows] == [f"nice {os.nice(0) + 3}"]
    alone = forecasts(engine.analyze(text, parts=("forecast",)))[RunId("f", 0, "forecast")]
    assert alone.rows[0].name == f"nice {os.nice(0)}"


def test_a_forecast_may_need_real_tensors(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    return 'needs real'\n", parts=("forecast",))
    messages = [f.message for f in forecasts(result)[RunId("f", 0, "forecast")].findings]
    assert messages == ["f real 'needs real'"]


@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        ("os.kill(os.getpid(), 9)", "the process crashed (Killed)"),
        ("os._exit(3)", "the process exited with status 3"),
        ("while True: pass", "it did not end within 0.7 seconds"),
        ("raise SystemExit(4)", "The code raises here: SystemExit: 4"),
    ],
)
def test_a_forecast_that_ends_badly_says_so(engine: Engine, misdeed: str, words: str) -> None:
    text = f"import os\ndef f():  # target\n    {misdeed}\n"
    result = engine.analyze(text, parts=("forecast",), limits=Limits(seconds=0.7))
    assert isinstance(result.end, Analyzed)
    (made,) = forecasts(result).values()
    assert words in made.note
    assert not made.rows
    assert not result.reports


def test_what_a_forecast_tries_out_does_nothing_to_it(engine: Engine) -> None:
    text = """\
        import os
        seen = []
        def tries_once():
            seen.append(1)
            return len(seen)
        def tries_again():
            return tries_once()
        def tries_to_leave():
            os._exit(3)
        def tries_to_raise():
            raise ValueError("no")
        def tries_for_ever():
            while True: pass
        def f():  # target
            return "asks"
        """
    result = engine.analyze(text, parts=("forecast",))
    (made,) = forecasts(result).values()
    assert {row.name: row.first for row in made.rows} == {
        "tries_once": "1",
        "tries_again": "1",
        "tries_to_leave": "it exited with status 3",
        "tries_to_raise": "it raised ValueError: no",
        "tries_for_ever": "it did not end within 1.0 seconds",
    }


def test_all_forecasts_together_end_in_time(engine: Engine) -> None:
    text = "".join(f"def f{n}():  # target\n    return 'sleep'\n" for n in range(3))
    text = text.replace("return 'sleep'", "while True: pass", 1)
    result = engine.analyze(text, parts=("forecast",), forecast_seconds=0.5, jobs=1)
    notes = {made.target: made.note for made in forecasts(result).values()}
    assert "did not end within 0.5 seconds" in notes["f0"]
    reason = "Not tried: the file's time limit for runs of this kind, 0.5 seconds, was reached."
    assert notes["f1"] == notes["f2"] == reason


def test_a_module_that_takes_its_forecasts_with_it(engine: Engine) -> None:
    text = "import os\ndef f():  # target 2\n    os.kill(os.getppid(), 9)\n"
    unsafe = "import ctypes\nkill = ctypes.CDLL(None).kill\n" + text.replace("os.kill", "kill")
    result = engine.analyze(unsafe, parts=("forecast",), jobs=1)
    assert isinstance(result.end, Analyzed)
    assert set(forecasts(result)) == {RunId("f", 0, "forecast"), RunId("f", 1, "forecast")}


def goes(*functions: str, returns: str = "other ways", target: str = "f") -> str:
    """A target, and functions that the stub takes for its other paths."""
    ways = (f"def goes_{n}():\n    {body}\n" for n, body in enumerate(functions))
    return f"import os, time\n{''.join(ways)}def {target}():  # target\n    return {returns!r}\n"


def on_paths(result: Result) -> list[tuple[RunId | None, str]]:
    return [(f.run, f.message) for f in result.findings if f.code == "stub/path"]


def test_other_paths_go_on_from_the_first_run(engine: Engine) -> None:
    text = goes("return 1", "raise ValueError('no')")
    result = engine.analyze(text, parts=("first", "paths"))
    assert on_paths(result) == [
        (RunId("f", 0, "paths"), "f auto goes_0 1"),
        (RunId("f", 0, "paths"), "f auto goes_1 it raised ValueError: no"),
    ]
    first, last = (event.report for event in result.events if isinstance(event, TargetDone))
    assert (first.lines_traced, first.paths) == (2, ())
    assert (last.lines_traced, last.lines, last.seconds) == (3, 4, first.seconds)
    assert [(path.words, path.status) for path in last.paths] == [
        ("goes_0", "traced"),
        ("goes_1", "failed"),
    ]
    # What only the first has is told again, of the same run.
    told = [(f.run, f.only) for f in result.findings if f.code == "stub/value"]
    assert told == [(RunId("f"), ""), (RunId("f"), "in training mode")]


def test_other_paths_wait_for_the_first_runs_of_all(engine: Engine) -> None:
    text = goes("return 1") + "def g():  # target\n    return 'later'\n"
    result = engine.analyze(text, parts=("first", "second", "paths"), jobs=1)
    codes = [f.message for f in result.findings if f.code in ("stub/value", "stub/path")]
    assert codes[:3] == ["f gave 'other ways'", "g gave 'later'", "f auto goes_0 1"]


def test_where_no_path_is_open_there_is_no_run(engine: Engine) -> None:
    result = engine.analyze(goes("return 1", returns="one way"), parts=("first", "paths"))
    assert not on_paths(result)
    assert len([event for event in result.events if isinstance(event, TargetDone)]) == 1


def test_other_paths_may_need_real_tensors(engine: Engine) -> None:
    text = goes("return 1", returns="other ways need real")
    result = engine.analyze(text, parts=("first", "paths"))
    assert on_paths(result) == [(RunId("f", 0, "paths"), "f real goes_0 1")]


def test_other_paths_that_are_ended_leave_the_first_run(engine: Engine) -> None:
    text = goes("time.sleep(600)")
    result = engine.analyze(text, parts=("first", "paths"), limits=Limits(seconds=0.7))
    assert isinstance(result.end, Analyzed)
    assert result.status("f") == "traced"
    assert [path.status for path in result.reports["f"].paths] == ["late"]


def test_all_other_paths_together_end_in_time(engine: Engine) -> None:
    text = goes("while True: pass")
    text += "".join(f"def g{n}():  # target\n    return 'other ways'\n" for n in range(2))
    result = engine.analyze(text, parts=("first", "paths"), path_seconds=0.5, jobs=1)
    reports = {name: report.paths for name, report in result.reports.items()}
    assert set(reports) == {"f", "g0", "g1"}
    assert [path.status for path in reports["g1"]] == ["late"]
    assert all(report.status == "traced" for report in result.reports.values())


BOTH: dict[str, Any] = {"parts": ("first", "paths"), "jobs": 2}


def goes_ahead(way: str, *, returns: str = "other ways") -> str:
    """A target whose first run ends only once another process goes its other way."""
    text = goes(f"os.write(given, b'.')\n    {way}", returns=returns)
    text = text.replace("import os, time\n", "import os, time\ntaken, given = os.pipe()\n")
    return text.replace("target\n", "target\n    os.read(taken, 1)\n")


@pytest.fixture
def forking(engine: Engine, processes: str) -> Engine:
    if processes == "spawn":
        pytest.skip("no process is forked off another one there")
    return engine


def test_an_idle_processor_begins_with_the_other_paths_of_the_text_before(forking: Engine) -> None:
    engine = forking
    engine.analyze(goes("return 1"), **BOTH)
    result = engine.analyze(goes_ahead("return 2"), **BOTH)
    assert on_paths(result) == [(RunId("f", 0, "paths"), "f auto goes_0 2")]
    assert [path.words for path in result.reports["f"].paths] == ["goes_0"]


def test_other_paths_that_are_begun_and_not_wanted_are_ended(forking: Engine) -> None:
    engine = forking
    engine.analyze(goes("return 1"), **BOTH)
    result = engine.analyze(goes_ahead("time.sleep(600)", returns="one way"), **BOTH)
    assert isinstance(result.end, Analyzed)
    assert not on_paths(result)
    assert result.end.seconds < 1.5  # the way alone may take twice as long


def test_other_paths_that_fail_ahead_are_gone_in_their_turn(engine: Engine) -> None:
    text = goes("os._exit(3)")
    engine.analyze(text, **BOTH)
    result = engine.analyze(f"{text}# again\n", **BOTH)
    assert on_paths(result) == [
        (RunId("f", 0, "paths"), "f auto goes_0 it exited with status 3"),
    ]


def test_other_paths_are_begun_with_the_tensors_that_they_need(engine: Engine) -> None:
    needs = "other ways need real"
    engine.analyze(goes("return 1", returns=needs), **BOTH)
    # Ahead of the run with real tensors is one with fake ones, which has nothing to ask.
    result = engine.analyze(goes("return 2", returns=needs), **BOTH)
    assert on_paths(result) == [(RunId("f", 0, "paths"), "f real goes_0 2")]


def values(result: Result, name: str) -> list[str]:
    found = [f.message for f in result.findings if f.code == "stub/value" and f.target == name]
    return [words.partition(" gave ")[2] for words in found]


def test_an_enclosing_run_is_made_once_for_all_that_it_calls(
    engine: Engine, processes: str
) -> None:
    """Each is run as it was called, whatever came after it."""
    result = engine.analyze(inside("state.clear()"))
    assert result.value("other") == "['nothing']"
    assert result.value("early") == "['a']"
    assert values(result, "twice") == ["['a', 'b']", "['a', 'b', 'c']"]
    assert result.value("late") == "[]"
    runs = result.log("stdout").count("whole")
    # Two parts each of four calls; and once more to count them.
    assert runs == (1 if processes == "fork" else 9)


def test_an_enclosing_run_is_made_once_for_each_kind_of_tensors(
    engine: Engine, processes: str
) -> None:
    text = inside().replace("return state", 'return "needs real"', 1)
    result = engine.analyze(text, parts=("first",))
    assert result.status("early") == result.status("late") == "traced"
    assert result.log("stdout").count("whole") == (2 if processes == "fork" else 6)


def given(text: str, **calls: str) -> str:
    """With what the stub tells that the targets are called with, by their names and numbers."""
    told = {(name.rstrip("0123456789"), int(name[-1])): call for name, call in calls.items()}
    return f"{text}given = {told}\n"


def asked(text: str, *targets: str, engine: Engine) -> Result:
    """Once more, where these need not be traced if they are called as in the text before."""
    before = engine.analyze(text, calls=True)
    known = [
        GivenCalls(name, tuple(r.called for r in before.all_reports if r.name == name and r.called))
        for name in targets
    ]
    assert all(one.calls for one in known)
    return engine.analyze(text.replace("0000", "1111"), calls=True, given=tuple(known))


CALLS = {"early0": "a", "twice0": "b0000", "twice1": "c", "late0": "d"}


def test_what_is_called_as_before_is_not_traced(forking: Engine) -> None:
    result = asked(given(inside(), **CALLS), "early", "twice", engine=forking)
    again = [(one.target, one.sources) for one in result.events if isinstance(one, CalledAgain)]
    assert again == [("early", ("here",))]
    assert set(result.reports) == {"twice", "late", "other"}
    assert values(result, "twice") == ["['a', 'b']", "['a', 'b', 'c']"]
    assert not values(result, "early")


def test_what_is_called_another_number_of_times_is_traced(forking: Engine) -> None:
    before = forking.analyze(given(inside(), **CALLS), calls=True)
    (first, second) = (r.called for r in before.all_reports if r.name == "twice")
    assert first is not None
    assert second is not None
    for calls in ((first,), (first, second, second), (second, first)):
        result = forking.analyze(
            given(inside(), **CALLS), calls=True, given=(GivenCalls("twice", calls),)
        )
        assert values(result, "twice") == ["['a', 'b']", "['a', 'b', 'c']"]


def test_what_an_enclosing_run_does_not_come_to_is_traced(forking: Engine) -> None:
    text = given(inside(), **CALLS)
    known = (GivenCalls("late", (GivenCall("d"),)), GivenCalls("early", (GivenCall("a"),)))
    result = forking.analyze(text.replace("whole(call):", "whole(call):\n    return"), given=known)
    assert result.status("late") == result.status("early") == "no-probe"


def test_what_is_called_is_told_only_to_who_asks(forking: Engine) -> None:
    result = forking.analyze(given(inside(), **CALLS))
    assert {report.called for report in result.all_reports} == {None}


AFTER: dict[str, tuple[str, Limits, str]] = {
    "crash": ("ctypes.string_at(0)", Limits(20.0), "crashed"),
    "exit": ("os._exit(5)", Limits(20.0), "crashed"),
    "hang": ("while True: pass", Limits(2.0), "timeout"),
    "raise": ("sys.exit(3)", Limits(20.0), "failed"),
    "fork bomb": (
        "[ctypes.CDLL(None).fork() or time.sleep(600) for _ in range(40)]; time.sleep(600)",
        Limits(20.0, processes=20),
        "crashed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AFTER)
def test_what_ends_an_enclosing_run_leaves_the_calls_before(engine: Engine, name: str) -> None:
    """What is called later is told as if it had been run alone."""
    middle, limits, status = AFTER[name]
    text = "import sys\n" + inside(middle).replace("inside 3", "inside")
    result = engine.analyze(text, parts=("first",), limits=limits)
    assert result.value("early") == "['a']"
    assert result.value("twice") == "['a', 'b']"
    assert result.value("other") == "['nothing']"
    assert result.status("late") == status
    assert len([report for report in result.reports.values() if report.status == "traced"]) == 3


def test_what_an_enclosing_run_does_not_call_has_no_probe(engine: Engine) -> None:
    result = engine.analyze(inside("return"), parts=("first",))
    assert result.status("late") == "no-probe"
    assert result.value("early") == "['a']"


def test_an_enclosing_run_with_threads_is_not_shared(engine: Engine) -> None:
    """They would be missing in a fork."""
    thread = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    text = inside(thread).replace("return state", "return threading.active_count()")
    result = engine.analyze(text, parts=("first",))
    assert (result.value("early"), result.value("late")) == ("1", "2")


def test_nothing_else_waits_for_an_enclosing_run(engine: Engine) -> None:
    engine.analyze("def ok():  # target\n    return 1\n", parts=("first",))
    text = inside().replace('call("early")', "while True: pass", 1)
    request = engine.begin(text, jobs=1, parts=("first",), focus=len(text))
    while not isinstance(event := engine.event(), TargetDone):
        assert event is not None
    assert event.report.name == "other"
    engine.send(Cancel(request))
    assert isinstance(engine.until_end(request).end, Analyzed)
    # The fixture asserts that nobody is left.


def test_a_run_that_crashes_leaves_those_that_go_on_from_elsewhere(engine: Engine) -> None:
    text = inside().replace("return state", "ctypes.string_at(0)", 1)
    result = engine.analyze(text, parts=("first",))
    assert result.status("early") == "crashed"
    assert values(result, "twice") == ["['a', 'b']", "['a', 'b', 'c']"]


def test_two_requests_at_once(engine: Engine) -> None:
    first = engine.begin("def f():  # target\n    return 'sleep'\n")
    second = engine.begin("def g():  # target\n    return 2\n")
    result = engine.until_end(second)
    assert any(isinstance(e, TargetDone) and e.request == second for e in result.events)
    engine.send(Cancel(first))
    assert engine.until_end(first).end == Analyzed(
        first, "v" + str(first), AnyFloat(), cancelled=True, cpu=AnyFloat()
    )


def test_cancelled_while_the_module_is_executed(engine: Engine) -> None:
    request = engine.begin(
        "import time\nprint('here', flush=True)\ntime.sleep(600)\ndef f():  # target\n    pass\n"
    )
    while not isinstance(engine.event(), Log):
        pass
    engine.send(Cancel(request))
    result = engine.until_end(request)
    assert result.end == Analyzed(
        request, f"v{request}", AnyFloat(), cancelled=True, cpu=AnyFloat()
    )


def test_cancelling_what_is_over_says_nothing(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    return 1\n")
    engine.send(Cancel(engine.requests))
    assert isinstance(result.end, Analyzed)


def test_self_check(engine: Engine) -> None:
    engine.send(SelfCheck(99))
    answer = engine.event()
    assert isinstance(answer, SelfChecked)
    assert answer.hooks[0].name == "stub"


def test_a_line_that_is_no_request_is_told(engine: Engine) -> None:
    os.write(engine.write, b"what?\n")
    answer = engine.event()
    assert isinstance(answer, Log)
    assert "invalid request" in answer.text


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "x = 1\n"])
def test_nothing_to_trace(engine: Engine, text: str) -> None:
    result = engine.analyze(text)
    assert [type(event) for event in result.events] == [TargetsFound, Analyzed]


def test_syntax_error(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    x = 'ü' +* 2\n")
    assert isinstance(result.end, Failed)
    finding = result.trouble()
    assert finding.code == "trace/syntax-error"
    assert finding.range == spot(1, 14, 15)  # bytes, not characters


def test_what_parses_and_does_not_compile(engine: Engine) -> None:
    text = "def f():  # target\n    pass\nclass A:\n    x = 'ü'; return (\n        x)\ny = f\n"
    finding = engine.analyze(text).trouble()
    assert (finding.code, finding.message) == (
        "trace/eager-error",
        "This statement fails: SyntaxError: 'return' outside function",
    )
    assert (finding.range.start, finding.range.end) == (Position(3, 14), Position(4, 10))


def test_null_byte_in_the_text(engine: Engine) -> None:
    result = engine.analyze("x = 1\0\n")
    assert isinstance(result.end, Failed)
