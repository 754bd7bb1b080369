"""The engine's processes, with a stand-in for everything that needs torch."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from fullgraph_engine import protocol
from fullgraph_engine.host import import_hook
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Cancel,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Limits,
    Log,
    Position,
    Range,
    Ready,
    Reproduce,
    Reproduced,
    ReproFound,
    ReproProgress,
    RunId,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Starting,
    TargetDone,
    TargetReport,
    TargetsFound,
    TargetStarted,
    Unusable,
    ValuesSeen,
    Wanted,
)

ROOT = Path(__file__).resolve().parents[2]
BOOT = ROOT / "engine" / "fullgraph_engine" / "boot.py"
STUB = f"{ROOT / 'tests' / 'fixtures' / 'host' / 'pipeline.py'}:Pipeline"
PATIENCE = 60.0


class Engine:
    """An engine process and both ends of its pipe."""

    def __init__(
        self,
        *,
        pipeline: str = STUB,
        processes: str = "auto",
        python: str = sys.executable,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        theirs, self.write = os.pipe()
        self.read, answers = os.pipe()
        command = [python, str(BOOT), "--read", str(theirs), "--write", str(answers)]
        command += ["--processes", processes]
        self.process = subprocess.Popen(
            [*command, "--pipeline", pipeline] if pipeline else command,
            pass_fds=(theirs, answers),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(answers)
        self.requests = 0
        # A spare takes longer to start than a test takes with it: none is started in vain.
        self.jobs = 1 if processes == "spawn" else 2
        self._buffer = b""

    def send(self, request: protocol.Request) -> None:
        os.write(self.write, protocol.encode(request))

    def event(self) -> Event | None:
        """The next event; None when the engine has closed its side."""
        while b"\n" not in self._buffer:
            if not select.select([self.read], [], [], PATIENCE)[0]:
                raise TimeoutError("the engine says nothing")
            data = os.read(self.read, 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol.decode(line)  # type: ignore[return-value]

    def begin(self, text: str, **options: Any) -> int:
        self.requests += 1
        options = {
            "path": "/nowhere/x.py",
            "limits": Limits(seconds=20.0),
            "jobs": self.jobs,
            **options,
        }
        self.send(
            Analyze(self.requests, f"v{self.requests}", text=textwrap.dedent(text), **options)
        )
        return self.requests

    def until_end(self, request: int) -> Result:
        events: list[Event] = []
        while True:
            event = self.event()
            assert event is not None, "the engine died"
            events.append(event)
            ends = isinstance(event, (Analyzed, Reproduced, Failed))
            if ends and event.request == request:
                return Result(events)

    def analyze(self, text: str, **options: Any) -> Result:
        return self.until_end(self.begin(text, **options))

    def begin_repro(self, order: str, seconds: float = 30.0, **options: Any) -> int:
        """Reproduce a finding of a target whose body is ``order``."""
        self.requests += 1
        text = f"def f():  # target\n    {order}\n"
        options = {"path": "/nowhere/x.py", "limits": Limits(seconds=20.0), **options}
        analyze = Analyze(0, f"v{self.requests}", text=text, **options)
        wanted = Wanted("stub/code", Range(Position(0, 4), Position(0, 5)), "f")
        self.send(Reproduce(self.requests, analyze, wanted, seconds))
        return self.requests

    def reproduce(self, order: str, **options: Any) -> Result:
        return self.until_end(self.begin_repro(order, **options))

    def close(self) -> int:
        with contextlib.suppress(OSError):
            os.close(self.write)
        status = self.process.wait(PATIENCE)
        os.close(self.read)
        return status


class Result:
    def __init__(self, events: list[Event]) -> None:
        self.events = events

    @property
    def findings(self) -> list[Finding]:
        return [event.finding for event in self.events if isinstance(event, FindingFound)]

    @property
    def troubles(self) -> list[tuple[str, int]]:
        return [(f.code, f.range.start.line) for f in self.findings if f.code[:6] == "trace/"]

    @property
    def reports(self) -> dict[str, TargetReport]:
        return {e.report.name: e.report for e in self.events if isinstance(e, TargetDone)}

    def trouble(self) -> Finding:
        found = [finding for finding in self.findings if finding.code.startswith("trace/")]
        assert len(found) == 1, found
        return found[0]

    def status(self, name: str) -> str:
        return self.reports[name].status

    def log(self, stream: str) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Log) and e.stream == stream)

    def value(self, name: str) -> str:
        """What the target returned, as the stub reports it."""
        values = [f.message for f in self.findings if f.code == "stub/value" and f.target == name]
        assert len(values) == 1, values
        return values[0].partition(" gave ")[2]

    @property
    def scripts(self) -> list[str]:
        return [event.script for event in self.events if isinstance(event, ReproFound)]

    @property
    def end(self) -> Event:
        return self.events[-1]


@pytest.fixture(scope="module", params=["fork", "spawn"])
def processes(request: pytest.FixtureRequest) -> str:
    """How the engine of a test starts its processes."""
    return str(request.param)


@pytest.fixture(scope="module")
def shared(processes: str) -> Iterator[Engine]:
    started = Engine(processes=processes)
    assert isinstance(started.event(), Starting)
    assert isinstance(started.event(), Ready)
    yield started
    assert started.close() == 0


@pytest.fixture
def engine(shared: Engine) -> Iterator[Engine]:
    """The engine that all tests share: every one leaves it fit for the next."""
    yield shared
    after = shared.analyze("def ok():  # target\n    return 1\n", parts=("first",))
    assert after.value("ok") == "1"
    assert isinstance(after.end, Analyzed)
    # Preambles stay, but not what was forked off them.
    for _ in range(500):
        left = [pid for kept in _children(shared.process.pid) for pid in _children(kept)]
        if not left and len(_children(shared.process.pid)) <= 4:
            return
        time.sleep(0.01)
    pytest.fail("processes are left")


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(entry.name) and int(stat[1]) == parent:
                found.append(int(entry.name))
    return found


def spot(line: int, byte: int, end: int) -> Range:
    return Range(Position(line, byte), Position(line, end))


# -- the way of a request -----------------------------------------------------------------------


def test_events_come_in_order(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    return 7\n")
    kinds = [type(event) for event in result.events]
    assert kinds == [
        TargetsFound,
        TargetStarted,
        FindingFound,
        FindingFound,
        TargetDone,
        Analyzed,
    ]
    assert result.value("f") == "7"
    assert result.reports["f"].range == spot(0, 4, 5)
    assert result.end == Analyzed(
        engine.requests, f"v{engine.requests}", result.end.seconds, cancelled=False
    )


def test_targets_nearest_to_the_edit_go_first(engine: Engine) -> None:
    text = "".join(f"def f{n}():  # target\n    return {n}\n" for n in range(5))
    result = engine.analyze(text, focus=6, jobs=1)
    started = [event.name for event in result.events if isinstance(event, TargetStarted)]
    assert started[0] == "f3"
    assert set(started[1:3]) == {"f2", "f4"}
    found = next(event for event in result.events if isinstance(event, TargetsFound))
    assert [target.name for target in found.targets] == ["f0", "f1", "f2", "f3", "f4"]


def test_every_probe_is_a_run(engine: Engine) -> None:
    result = engine.analyze("def f():  # target 3\n    return 1\ndef g():  # target 0\n    pass\n")
    done = [event.report for event in result.events if isinstance(event, TargetDone)]
    assert sorted((report.name, report.status) for report in done) == [
        ("f", "traced"),
        ("f", "traced"),
        ("f", "traced"),
        ("g", "no-probe"),
    ]
    assert [f.target for f in result.findings if f.code == "probe/missing"] == ["g"]


def test_only_some_targets(engine: Engine) -> None:
    text = "def f():  # target\n    return 1\ndef g():  # target\n    return 2\n"
    assert set(engine.analyze(text, only=("g",)).reports) == {"g"}


def test_what_is_no_target_after_all_is_dropped(engine: Engine) -> None:
    text = "def f():  # target\n    return 1\ndef not_g():  # target\n    return 2\n"
    result = engine.analyze(text)
    found = [event for event in result.events if isinstance(event, TargetsFound)]
    assert [target.name for target in found[-1].targets] == ["f"]
    assert set(result.reports) == {"f"}


def test_strings_have_one_order_in_all_runs(engine: Engine) -> None:
    names = "{'alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta'}"
    text = f"names = list({names})\n" + "".join(
        f"def f{number}():  # target\n    return names, 'PYTHONHASHSEED' in os.environ\n"
        for number in range(3)
    )
    result = engine.analyze(f"import os\n{text}", parts=("first",))
    values = {result.value(f"f{number}") for number in range(3)}
    assert len(values) == 1
    assert eval(values.pop())[1] == ("PYTHONHASHSEED" in os.environ)


def test_too_many_targets_are_cut_visibly(engine: Engine) -> None:
    text = "".join(f"def f{n}():  # target\n    return {n}\n" for n in range(9))
    result = engine.analyze(text, focus=9, limits=Limits(targets=3))
    found = next(event for event in result.events if isinstance(event, TargetsFound))
    assert [target.name for target in found.targets] == ["f3", "f4", "f5"]
    assert "9 targets" in found.note
    assert set(result.reports) == {"f3", "f4", "f5"}


def test_a_run_that_needs_real_tensors_is_repeated(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    return 'needs real'\n")
    began = [f.message for f in result.findings if f.code == "stub/began" and f.count]
    assert began == ["f 0 auto", "f 0 real"]
    assert len([event for event in result.events if isinstance(event, TargetDone)]) == 1
    fake = engine.analyze("def f():  # target\n    return 'needs real'\n", mode="fake")
    assert [f.message for f in fake.findings if f.code == "stub/began"] == ["f 0 fake"]


def test_what_real_tensors_do_not_show_is_taken_back(engine: Engine) -> None:
    result = engine.analyze("def f():  # target\n    return 'needs real'\n")
    told = [(finding.message, finding.count) for finding in result.findings]
    assert told == [("f 0 auto", 1), ("f", 1), ("f 0 real", 1), ("f", 1), ("f 0 auto", 0)]


def test_what_was_seen_is_told_once_by_the_last_attempt(engine: Engine) -> None:
    text = "def f():  # target\n    return 'needs real'\n"

    def seen(result: Result) -> list[str]:
        told = [event for event in result.events if isinstance(event, ValuesSeen)]
        return [value.name for event in told for value in event.values()]

    assert seen(engine.analyze(text)) == ["in_real_mode"]
    # An attempt that dies tells nothing, so what the one before it saw stands.
    first = "import os\ndef f():  # target\n    return 'needs real' if once() else os._exit(3)\n"
    once = """
        import pathlib, tempfile
        flag = pathlib.Path(tempfile.gettempdir()) / "once"
        def once():
            known = flag.exists()
            flag.touch()
            return not known
        """
    result = engine.analyze(textwrap.dedent(once) + first)
    assert result.reports["f"].status == "crashed"
    assert seen(result) == ["in_auto_mode"]


# -- forecasts ----------------------------------------------------------------------------------


def forecasts(result: Result) -> dict[str, ForecastFound]:
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
    assert forecasts(engine.analyze(text, parts=("forecast",)))[RunId("f", 0, "forecast")].rows[
        0
    ].name == (f"nice {os.nice(0)}")


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
    assert notes["f1"] == notes["f2"] == "Not tried: others had taken 0.5 seconds."


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


def on_paths(result: Result) -> list[tuple[str, str]]:
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
    assert [path.status for path in result.reports["f"].paths] in (["late"], ["failed"])


def test_all_other_paths_together_end_in_time(engine: Engine) -> None:
    text = goes("while True: pass")
    text += "".join(f"def g{n}():  # target\n    return 'other ways'\n" for n in range(2))
    result = engine.analyze(text, parts=("first", "paths"), path_seconds=0.5, jobs=1)
    reports = {name: report.paths for name, report in result.reports.items()}
    assert set(reports) == {"f", "g0", "g1"}
    assert [path.status for path in reports["g1"]] == ["late"]
    assert all(report.status == "traced" for report in result.reports.values())


def inside(middle: str = "") -> str:
    """Three targets that a function calls, which has these lines before it calls the last one."""
    return f"""\
import ctypes, os, threading, time
state = ["nothing"]
def whole(call):
    os.write(1, b"whole\\n")
    state[:] = ["a"]
    call("early")
    state.append("b")
    call("twice")
    state.append("c")
    call("twice")
    {middle}
    call("late")
def early():  # target inside
    return state
def twice():  # target inside 3
    return state
def late():  # target inside
    return state
def other():  # target
    return state
"""


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


AFTER = {
    "crash": ("ctypes.string_at(0)", {}, "crashed"),
    "exit": ("os._exit(5)", {}, "crashed"),
    "hang": ("while True: pass", {"seconds": 2.0}, "timeout"),
    "raise": ("sys.exit(3)", {}, "failed"),
    "fork bomb": (
        "[ctypes.CDLL(None).fork() or time.sleep(600) for _ in range(40)]; time.sleep(600)",
        {"processes": 20},
        "crashed",
    ),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_ends_an_enclosing_run_leaves_the_calls_before(engine: Engine, name: str) -> None:
    """What is called later is told as if it had been run alone."""
    middle, limits, status = AFTER[name]
    text = "import sys\n" + inside(middle).replace("inside 3", "inside")
    result = engine.analyze(text, parts=("first",), limits=Limits(**{"seconds": 20.0, **limits}))
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
    assert engine.until_end(first).end == Analyzed(first, "v" + str(first), _any(), cancelled=True)


class _any(float):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float)

    __hash__ = float.__hash__


def test_cancelled_while_the_module_is_executed(engine: Engine) -> None:
    request = engine.begin(
        "import time\nprint('here', flush=True)\ntime.sleep(600)\ndef f():  # target\n    pass\n"
    )
    while not isinstance(engine.event(), Log):
        pass
    engine.send(Cancel(request))
    result = engine.until_end(request)
    assert result.end == Analyzed(request, f"v{request}", _any(), cancelled=True)


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
    assert "not understood" in answer.text


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


def test_null_byte_in_the_text(engine: Engine) -> None:
    result = engine.analyze("x = 1\0\n")
    assert isinstance(result.end, Failed)


# -- executing the module -----------------------------------------------------------------------


def test_a_failed_import_is_one_finding_on_its_name(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import os, absent.thing as thing, sys
        def uses():  # target
            return thing.x + 1
        def does_not():  # target
            return os.name + sys.platform
        class Base(thing.Base):  # target
            pass
        y = thing.constant * 2
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/import-error"
    assert finding.range == spot(0, 11, 32)
    assert finding.message == "Cannot import `absent.thing`: No module named 'absent'"
    assert f"{sys.executable} -m pip install absent" in finding.hints[0]
    assert result.status("does_not") == "traced"
    assert result.status("uses") == "failed"
    assert result.status("Base") == "failed"
    assert "line 1" in (result.reports["uses"].error or "")


def test_from_import_of_a_missing_module(engine: Engine) -> None:
    result = engine.analyze(
        "def f():  # target\n    return 1\nfrom  absent.sub import (a,\n    b)\n"
    )
    assert result.trouble().range == spot(2, 6, 16)
    assert result.value("f") == "1"


def test_from_import_of_a_missing_name_binds_the_others(engine: Engine) -> None:
    result = engine.analyze(
        "from os.path import join, nonsense, sep\ndef f():  # target\n    return join('a', sep)\n"
    )
    finding = result.trouble()
    assert finding.range == spot(0, 26, 34)
    assert finding.message.startswith("Cannot import `os.path.nonsense`")
    assert result.value("f") == "'/'"


def test_annotations_do_not_need_what_they_name(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import absent
        class C:  # target
            def show(self, x: absent.Array) -> absent.Other: ...
            def __repr__(self): return "a C"
        """
    )
    assert result.value("C") == "a C"


def test_a_guarded_import_is_no_finding(engine: Engine) -> None:
    result = engine.analyze(
        """\
        try:
            import absent
        except ImportError:
            absent = None
        def f():  # target
            return absent
        """
    )
    assert result.value("f") == "None"
    assert not result.troubles


def test_statements_after_a_failing_one_are_executed(engine: Engine) -> None:
    result = engine.analyze(
        """\
        rate = {}["rate"]
        twice = rate * 2
        def f():  # target
            return 5
        def g():  # target
            return twice
        """
    )
    finding = result.trouble()
    assert (finding.code, finding.range.start.line) == ("trace/eager-error", 0)
    assert "KeyError: 'rate'" in finding.message
    assert result.value("f") == "5"
    if sys.version_info >= (3, 11):
        assert finding.range == spot(0, 7, 17)


def test_the_user_stack_of_a_module_error(engine: Engine) -> None:
    result = engine.analyze(
        "def inner():\n    raise ValueError('no')\ndef f():  # target\n    pass\ninner()\n"
    )
    finding = result.trouble()
    assert [(frame.function, frame.line) for frame in finding.stack] == [
        ("<module>", 4),
        ("inner", 1),
    ]
    assert finding.range.start.line == 1


def test_the_module_looks_like_a_module(engine: Engine, tmp_path: Path) -> None:
    package = tmp_path / "pack" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("from .sub.model import Net\n")
    (package / "__init__.py").write_text("")
    (package / "near.py").write_text("where = __name__\n")
    path = package / "model.py"
    path.write_text("raise RuntimeError('the file on disk is not what is analyzed')\n")
    result = engine.analyze(
        '''\
        """Doc."""
        from __future__ import annotations
        import inspect, sys
        from . import near
        from pack.sub.near import where
        x: undefined_name = 1
        class Net: ...
        def f():  # target
            """Source."""
            import pack
            same = pack.Net is Net and sys.modules[__name__].f is f
            return (__name__, __package__, __file__, __doc__, where, same, __spec__.name)
        def g():  # target
            return inspect.getsource(g).splitlines()[0]
        if __name__ == "__main__":
            raise SystemExit
        ''',
        path=str(path),
    )
    assert not result.troubles
    assert eval(result.value("f")) == (
        "pack.sub.model",
        "pack.sub",
        str(path),
        "Doc.",
        "pack.sub.near",
        True,
        "pack.sub.model",
    )
    assert result.value("g") == repr("def g():  # target")


def test_a_package_that_fails_is_one_finding(engine: Engine, tmp_path: Path) -> None:
    # Python would not execute the file at all, so the finding is on what needs the package first.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("early = 1\nimport nowhere_to_be_found\n")
    (tmp_path / "broken" / "near.py").write_text("x = 4\n")
    result = engine.analyze(
        """\
        import os
        from .near import x
        from broken import early, something, __version__
        def f():  # target
            return x, early
        def g():  # target
            return something.x
        """,
        path=str(tmp_path / "broken" / "model.py"),
    )
    assert result.value("f") == "(4, 1)"
    finding = result.trouble()
    assert finding.range.start.line == 1
    assert "nowhere_to_be_found" in finding.message
    assert [Path(related.path).parent.name for related in finding.related] == ["broken"]
    assert result.status("g") == "failed"
    assert "nowhere_to_be_found" in (result.reports["g"].error or "")


def test_namespace_packages_are_found_below_a_root(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "name" / "space").mkdir(parents=True)
    (tmp_path / "name" / "near.py").write_text("x = 8\n")
    path = tmp_path / "name" / "space" / "model.py"
    result = engine.analyze(
        "from ..near import x\ndef f():  # target\n    return x, __name__\n",
        path=str(path),
        roots=(str(tmp_path),),
    )
    assert result.value("f") == "(8, 'name.space.model')"


def test_an_error_inside_an_imported_module(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\n\ndef go():\n    return 1 / 0\ngo()\n")
    path = tmp_path / "model.py"
    result = engine.analyze("import mine\ndef f():  # target\n    pass\n", path=str(path))
    finding = result.trouble()
    assert (finding.code, finding.range) == ("trace/import-error", spot(0, 7, 11))
    assert [Path(related.path).name for related in finding.related] == ["mine.py", "mine.py"]
    assert finding.related[0].range.start.line == 3


@pytest.mark.parametrize("name", ["torch.py", "typing.py", "json.py", "a-b.v2.py", "untitled:1"])
def test_files_with_names_that_shadow(engine: Engine, tmp_path: Path, name: str) -> None:
    path = name if ":" in name else str(tmp_path / name)
    result = engine.analyze(
        "import json\ndef f():  # target\n    return json.dumps([1]), __name__\n", path=path
    )
    value, own = eval(result.value("f"))
    assert value == "[1]"
    assert own not in sys.stdlib_module_names


def test_missing_cuda_is_retried_with_fake_tensors(engine: Engine) -> None:
    stub = STUB.rpartition(":")[0]
    result = engine.analyze(
        f"""\
        import sys
        Pipeline = next(m.Pipeline for m in list(sys.modules.values())
                        if getattr(m, "__file__", "") == {stub!r})
        def cuda():
            if not Pipeline.in_fake_mode:
                raise AssertionError("Torch not compiled with CUDA enabled")
            return "fake"
        def big():
            if not Pipeline.in_fake_mode:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            return "fake"
        x, y = cuda(), big()
        def f():  # target
            return x, y
        """
    )
    assert not result.troubles
    assert result.value("f") == "('fake', 'fake')"


# -- preambles ----------------------------------------------------------------------------------


@pytest.fixture
def reimports(processes: str) -> int:
    """How often an edit below the imports executes them again.

    A process that has executed them is kept as a preamble only where it can be forked: a spare
    executes everything itself.
    """
    return {"fork": 0, "spawn": 1}[processes]


SLOW = "import time\ntime.sleep(0.1)\nprint('slow is imported', flush=True)\nvalue = 1\n"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A module that takes its time, and says when it is executed."""
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path / "model.py"


def _imported(result: Result) -> int:
    return result.log("stdout").count("slow is imported")


def test_an_edit_below_the_imports_does_not_execute_them_again(
    engine: Engine, slow: Path, reimports: int
) -> None:
    head = '"""Doc."""\nimport slow\n'
    first = engine.analyze(f"{head}def f():  # target\n    return slow.value\n", path=str(slow))
    assert (first.value("f"), _imported(first)) == ("1", 1)
    for number in range(3):
        again = engine.analyze(
            f"{head}\nx = {number}\ndef f():  # target\n"
            "    import inspect\n    return slow.value, x, inspect.getsource(f)[:7], __doc__\n",
            path=str(slow),
        )
        assert again.value("f") == f"(1, {number}, 'def f()', 'Doc.')"
        assert _imported(again) == reimports
        assert again.reports["f"].range.start.line == 4


def test_an_edit_of_the_imports_executes_them_again(engine: Engine, slow: Path) -> None:
    body = "def f():  # target\n    return 1\n"
    assert _imported(engine.analyze("import slow\n" + body, path=str(slow))) == 1
    assert _imported(engine.analyze("import slow, os\n" + body, path=str(slow))) == 1
    assert _imported(engine.analyze("import os\nimport slow\n" + body, path=str(slow))) == 1


def test_a_continued_import_is_not_taken_for_the_old_one(engine: Engine, slow: Path) -> None:
    guarded = "try:\n    import slow\nexcept ImportError:\n    slow = None\n"
    body = "def f():  # target\n    return slow.value, x\n"
    assert _imported(engine.analyze(f"{guarded}x = 1\n{body}", path=str(slow))) == 1
    more = engine.analyze(f"{guarded}else:\n    x = 2\n{body}", path=str(slow))
    assert (more.value("f"), _imported(more)) == ("(1, 2)", 1)


def test_a_changed_module_is_imported_again(engine: Engine, slow: Path) -> None:
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    assert engine.analyze(text, path=str(slow)).value("f") == "1"
    (slow.parent / "slow.py").write_text(SLOW.replace("value = 1", "value = 22"))
    assert engine.analyze(text, path=str(slow)).value("f") == "22"


def test_a_changed_file_that_an_import_reads(engine: Engine, slow: Path) -> None:
    config = slow.parent / "config.txt"
    config.write_text("one")
    (slow.parent / "slow.py").write_text(SLOW + f"value = open({str(config)!r}).read()\n")
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    assert engine.analyze(text, path=str(slow)).value("f") == "'one'"
    config.write_text("three")
    assert engine.analyze(text, path=str(slow)).value("f") == "'three'"


def test_findings_of_the_imports_come_again(engine: Engine, slow: Path, reimports: int) -> None:
    text = "import slow, absent\ndef f():  # target\n    return {}\n"
    first = engine.analyze(text.format(1), path=str(slow))
    again = engine.analyze(text.format(2), path=str(slow))
    assert (_imported(first), _imported(again)) == (1, reimports)
    assert first.trouble() == again.trouble()
    (slow.parent / "absent.py").write_text("")
    assert not engine.analyze(text.format(3), path=str(slow)).troubles


def test_a_generation_that_misbehaves_leaves_the_preamble(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow\nimport os\n{}\ndef f():  # target\n    return 1\n"
    assert _imported(engine.analyze(text.format(""), path=str(slow))) == 1
    broken = engine.analyze(text.format("os._exit(3)"), path=str(slow))
    assert broken.troubles == [("trace/crashed", 2)]
    assert broken.value("f") == "1"
    again = engine.analyze(text.format("x = 1"), path=str(slow))
    assert (again.value("f"), _imported(again)) == ("1", reimports)
    assert isinstance(engine.analyze(text.format("x = ="), path=str(slow)).end, Failed)
    assert _imported(engine.analyze(text.format("x = 2"), path=str(slow))) == reimports


def test_cancelling_a_generation_leaves_the_preamble(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow, time\n{}\ndef f():  # target\n    return 1\n"
    assert _imported(engine.analyze(text.format(""), path=str(slow))) == 1
    for wait in (False, True):
        request = engine.begin(
            text.format("print('here', flush=True)\ntime.sleep(600)"), path=str(slow)
        )
        while wait and not isinstance(engine.event(), Log):
            pass
        engine.send(Cancel(request))
        assert isinstance(engine.until_end(request).end, Analyzed)
    again = engine.analyze(text.format("x = 1"), path=str(slow))
    assert (again.value("f"), _imported(again)) == ("1", reimports)


def test_an_import_that_starts_a_thread_is_not_kept(engine: Engine, slow: Path) -> None:
    (slow.parent / "slow.py").write_text(
        SLOW + "import threading\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    )
    text = "import slow\ndef f():  # target\n    return {}\n"
    assert _imported(engine.analyze(text.format(1), path=str(slow))) == 1
    assert _imported(engine.analyze(text.format(2), path=str(slow))) == 1


def test_only_a_few_preambles_are_kept(engine: Engine, slow: Path, reimports: int) -> None:
    text = "import slow\ndef f():  # target\n    return 1\n"
    paths = [str(slow.parent / f"model{number}.py") for number in range(6)]
    for path in paths:
        assert _imported(engine.analyze(text, path=path)) == 1
    assert _imported(engine.analyze(text, path=paths[-1])) == reimports
    assert _imported(engine.analyze(text, path=paths[0])) == 1
    # What has said its last word may still be on its way out.
    until = time.monotonic() + 30
    while len(_children(engine.process.pid)) > 5 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(_children(engine.process.pid)) <= 5


# -- code that misbehaves -----------------------------------------------------------------------

# What a statement does: the code of the finding, and words of its message. It is tried both as
# the module's own statement and inside a run.
MISDEEDS = {
    "sys.exit": ("import sys; sys.exit(3)", "trace/eager-error", "3"),
    "os._exit": ("import os; os._exit(3)", "trace/crashed", "exited with status 3"),
    "loop": ("while True: pass", "trace/timeout", ""),
    "loop that catches": (
        "while True:\n        try:\n            pass\n        except BaseException: pass",
        "trace/timeout",
        "",
    ),
    "sleep in C": ("import time; time.sleep(600)", "trace/timeout", ""),
    "deaf sleep": (
        "import signal, time; signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65)); "
        "time.sleep(600)",
        "trace/timeout",
        "",
    ),
    "segfault": ("import ctypes; ctypes.string_at(0)", "trace/crashed", "Segmentation fault"),
    "abort": ("import os; os.abort()", "trace/crashed", "Aborted"),
    "kill itself": ("import os; os.kill(os.getpid(), 9)", "trace/crashed", "Killed"),
    "memory": ("[bytearray(1 << 24) for _ in range(1 << 20)]", "trace/eager-error", "emory"),
    "stdin": ("input()", "trace/eager-error", "EOFError"),
    "kill the parent": (
        "import os; os.kill(os.getppid(), 9)",
        "trace/sandboxed",
        "signal no other process",
    ),
    "fork": ("import os; os.fork()", "trace/sandboxed", "start no processes"),
    "subprocess": (
        "import subprocess; subprocess.run(['true'])",
        "trace/sandboxed",
        "start no processes",
    ),
    "write": ("open('/tmp/fullgraph-must-not-be', 'w')", "trace/sandboxed", "change no files"),
    "remove": ("import os; os.remove(__file__)", "trace/sandboxed", "change no files"),
    "network": (
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "trace/sandboxed",
        "no network",
    ),
    "recursion": (
        "import sys; sys.setrecursionlimit(10**9)\n"
        "    def deep(n): return [deep(n + 1)]\n"
        "    import functools; g = functools.reduce\n"
        "    h = lambda *a: g(h, [1, 2])\n"
        "    h()",
        # Since Python 3.12 recursion in C has a limit of its own.
        *(
            ("trace/crashed", "Segmentation fault")
            if sys.version_info < (3, 12)
            else ("trace/eager-error", "RecursionError")
        ),
    ),
}
BRIEF = Limits(seconds=1.5, module_seconds=1.5, memory=300)
MISDEED_LIMITS = {"memory": Limits(memory=300), "recursion": Limits()}


@pytest.mark.parametrize("name", MISDEEDS)
def test_misdeed_in_a_run(engine: Engine, name: str) -> None:
    deed, code, words = MISDEEDS[name]
    result = engine.analyze(
        f"def before():  # target\n    return 1\ndef f():  # target\n    {deed}\n",
        limits=MISDEED_LIMITS.get(name, BRIEF),
    )
    finding = result.trouble()
    assert finding.code == code
    assert words in finding.message
    if name in ("kill itself", "os._exit"):
        assert finding.range == spot(2, 4, 5)  # nothing is known but the target
    else:
        assert finding.range.start.line >= 3
    assert result.status("f") == {"trace/timeout": "timeout", "trace/crashed": "crashed"}.get(
        code, "failed"
    )
    assert result.value("before") == "1"


@pytest.mark.parametrize("name", MISDEEDS)
def test_misdeed_in_the_module(engine: Engine, name: str) -> None:
    deed, code, words = MISDEEDS[name]
    result = engine.analyze(
        f"def before():  # target\n    return 1\ndef deed():\n    {deed}\ndeed()\n"
        "def after():  # target\n    return 2\n",
        limits=MISDEED_LIMITS.get(name, BRIEF),
    )
    finding = result.trouble()
    assert finding.code == code
    assert words in finding.message
    assert finding.range.start.line >= (2 if name == "kill itself" else 3)
    assert result.value("before") == "1"
    assert result.value("after") == "2"


def test_runs_go_on_long_after_a_statement_used_up_the_time(engine: Engine) -> None:
    result = engine.analyze(
        "import time\nwhile True: pass\ndef f():  # target\n    time.sleep(3)\n    return 1\n",
        limits=Limits(seconds=20.0, module_seconds=0.5),
    )
    assert result.troubles == [("trace/timeout", 1)]
    assert result.value("f") == "1"


def test_a_run_that_no_process_can_be_had_for_is_told() -> None:
    engine, _ = _started("spawn")
    # What a spare is told to do is left in the scratch folder, which is gone by then.
    result = engine.analyze(
        """\
        import os, shutil, tempfile
        shutil.rmtree(tempfile.gettempdir())
        def f():  # target
            return 1
        def g():  # target
            return 2
        """,
        jobs=1,
        parts=("first",),
    )
    told = sorted((report.status, report.error) for report in result.reports.values())
    assert told == [
        ("crashed", "No process could be started for it: No such file or directory"),
        ("traced", None),
    ]
    assert engine.close() == 0


def test_two_statements_that_end_the_process(engine: Engine) -> None:
    result = engine.analyze(
        "import os, ctypes\nos._exit(1)\nctypes.string_at(0)\ndef f():  # target\n    return 1\n"
    )
    assert result.troubles == [("trace/crashed", 1), ("trace/crashed", 2)]
    assert result.value("f") == "1"


def test_a_module_that_ends_the_process_again_and_again(engine: Engine) -> None:
    text = "import os\ndef f():  # target\n    return 1\n" + "os._exit(1)\n" * 20
    result = engine.analyze(text)
    assert 1 < len(result.troubles) < 10
    assert result.status("f") == "crashed"
    assert isinstance(result.end, Analyzed)


def test_output_is_logged_and_bounded(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import os, sys
        print("module")
        os.write(2, b"to the descriptor\\n")
        def f():  # target
            print("run", end="")
            for _ in range(100_000):
                sys.stderr.write("0123456789" * 10)
            return 1
        """
    )
    assert result.log("stdout") == "modulerun" or "module\n" in result.log("stdout")
    assert "to the descriptor\n" in result.log("stderr")
    assert len(result.log("stderr")) < 80_000
    assert "64 KiB" in result.log("engine")
    assert result.value("f") == "1"


def test_meddling_with_the_process_changes_nothing(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import builtins, io, json, os, select, signal, sys, tempfile
        os.chdir("/")
        os.closerange(3, 1000)
        sys.stdout = sys.stderr = io.StringIO()
        for number in range(1, 65):
            try:
                signal.signal(number, lambda *a: None)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        def broken(*a, **k):
            raise RuntimeError("replaced")
        json.dumps = json.loads = os.write = os.read = os.fork = os.waitpid = broken
        os.close = os.dup2 = os.getpid = os.setsid = os._exit = broken
        select.poll = select.select = broken
        builtins.print = builtins.open = builtins.input = builtins.exit = broken
        def f():  # target 2
            return 1
        """
    )
    assert not result.troubles
    assert [report.status for report in result.reports.values()] == ["traced"]
    assert len([f for f in result.findings if f.message == "f gave 1"]) == 2


def test_closing_every_descriptor_in_a_run(engine: Engine) -> None:
    result = engine.analyze("import os\ndef f():  # target\n    os.closerange(0, 65536)\n")
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "file descriptors" in finding.message


def test_closing_every_descriptor_in_the_module(engine: Engine) -> None:
    result = engine.analyze(
        "import os\nos.closerange(0, 65536)\ndef f():  # target\n    return 1\n"
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "file descriptors" in finding.message
    assert isinstance(result.end, Analyzed)


def test_threads_started_by_the_module(engine: Engine, processes: str) -> None:
    result = engine.analyze(
        """\
        import threading, time
        threading.Thread(target=time.sleep, args=(600,)).start()
        def f():  # target
            return 1
        """
    )
    assert result.value("f") == "1"
    # They do not survive a fork; a process that becomes a run itself keeps them.
    assert ("threads" in result.log("engine")) == (processes == "fork")


def test_processes_that_escape_are_killed(engine: Engine, tmp_path: Path) -> None:
    # libc's own fork passes by the interpreter's audit hooks.
    result = engine.analyze(
        """\
        import ctypes, os, time
        libc = ctypes.CDLL(None)
        def f():  # target
            if libc.fork() == 0:
                os.setsid()
                if libc.fork() == 0:
                    os.setsid()
                    time.sleep(600)
                time.sleep(600)
            time.sleep(0.2)
            return 1
        """
    )
    assert result.value("f") == "1"
    # The fixture asserts that nobody is left.


def test_a_fork_bomb_is_ended(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import ctypes, time
        libc = ctypes.CDLL(None)
        def f():  # target
            for _ in range(100):
                if libc.fork() == 0:
                    time.sleep(600)
            time.sleep(600)
        """,
        limits=Limits(seconds=20, processes=20),
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "more than 20 processes" in finding.message


def test_shared_memory_counts(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import mmap, time
        def f():  # target
            room = mmap.mmap(-1, 1 << 29)
            for start in range(0, 1 << 29, 4096):
                room[start] = 1
            time.sleep(600)
        """,
        limits=Limits(seconds=20, memory=200),
    )
    finding = result.trouble()
    assert "more than 200 MiB" in finding.message
    assert finding.range.start.line >= 3


def test_scratch_files_may_be_written_and_are_removed(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import os, tempfile
        def f():  # target
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "x"), "w") as file:
                    file.write("x")
                os.rename(file.name, file.name + "2")
            handle, name = tempfile.mkstemp()
            return name
        """
    )
    scratch = Path(eval(result.value("f"))).parent
    assert engine.analyze("def f():  # target\n    pass\n").status("f") == "traced"
    assert not scratch.exists()


def test_c_code_cannot_change_files_either(engine: Engine, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint.pt"
    kept.write_text("precious")
    result = engine.analyze(
        f"""\
        import ctypes
        libc = ctypes.CDLL(None)
        def f():  # target
            return libc.open({str(kept).encode()!r}, 0o1001), libc.unlink({str(kept).encode()!r})
        """
    )
    if not _has_landlock():
        pytest.skip("this kernel has no Landlock")
    assert result.value("f") == "(-1, -1)"
    assert kept.read_text() == "precious"


def _has_landlock() -> bool:
    import ctypes

    return int(ctypes.CDLL(None).syscall(444, None, 0, 1)) > 0


# -- the engine itself --------------------------------------------------------------------------


def _started(processes: str = "auto", **options: Any) -> tuple[Engine, list[Event]]:
    engine = Engine(processes=processes, **options)
    events: list[Event] = []
    while not events or isinstance(events[-1], Starting):
        event = engine.event()
        assert event is not None
        events.append(event)
    return engine, events


def test_the_engine_ends_with_its_pipe_and_takes_all_along(processes: str) -> None:
    engine, _ = _started(processes)
    engine.begin(
        "import os\nprint(os.getpid(), flush=True)\nwhile True: pass\n"
        "def f():  # target\n    pass\n"
    )
    while not isinstance(event := engine.event(), Log):
        pass
    pid = int(event.text)
    assert engine.close() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_user_code_dies_with_a_killed_engine(processes: str) -> None:
    engine, _ = _started(processes)
    engine.begin(
        "import os\nprint(os.getpid(), flush=True)\nwhile True: pass\n"
        "def f():  # target\n    pass\n"
    )
    while not isinstance(event := engine.event(), Log):
        pass
    engine.process.send_signal(signal.SIGKILL)
    engine.close()
    for _ in range(500):
        try:
            os.kill(int(event.text), 0)
            state = Path(f"/proc/{event.text.strip()}/stat").read_text().rpartition(")")[2].split()
        except (ProcessLookupError, FileNotFoundError):
            return
        if state[0] == "Z":  # whoever adopted it takes its time
            return
        time.sleep(0.01)
    pytest.fail("the module process outlived the engine")


def test_spares_that_do_not_get_ready_are_told_and_not_started_over_and_over(
    tmp_path: Path,
) -> None:
    stub, _, name = STUB.rpartition(":")
    broken = tmp_path / "broken.py"
    broken.write_text(
        f"import sys\nfrom pathlib import Path\n"
        f"exec(compile(Path({stub!r}).read_text(), {stub!r}, 'exec'))\n"
        f"class Broken({name}):\n    def warm(self):\n"
        f"        if '--spare' in sys.argv:\n"
        f"            with Path({str(tmp_path / 'starts')!r}).open('a') as starts:\n"
        f"                starts.write('x')\n"
        f"            sys.exit(5)\n"
    )
    engine, _ = _started("spawn", pipeline=f"{broken}:Broken")
    result = engine.analyze("def f():  # target\n    return 1\n")
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "exited with status 5 before it had torch imported" in finding.message
    engine.send(SelfCheck(99))  # it has gone on since
    while not isinstance(engine.event(), SelfChecked):
        pass
    assert engine.close() == 0
    assert 1 <= len((tmp_path / "starts").read_text()) <= 4


def test_shutdown(processes: str) -> None:
    engine, _ = _started(processes)
    engine.send(Shutdown())
    assert engine.process.wait(PATIENCE) == 0
    engine.close()


def test_an_interrupt_from_the_terminal_is_for_the_server(processes: str) -> None:
    engine, _ = _started(processes)
    engine.process.send_signal(signal.SIGINT)
    result = engine.analyze("def f():  # target\n    return 1\n")
    assert result.value("f") == "1"
    engine.close()


def test_no_torch(tmp_path: Path, processes: str) -> None:
    stub = tmp_path / "without.py"
    stub.write_text(
        "class Base:\n    def operators(self, yaml):\n        return None\n"
        "class Pipeline(Base):\n    def torch_version(self):\n        import torch_that_is_absent\n"
        "class Missing(Base):\n    def torch_version(self):\n"
        "        raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "class Old(Base):\n    def torch_version(self):\n        return '2.5.1+cu121'\n"
        "class Broken(Base):\n    def torch_version(self):\n"
        "        raise OSError('libtorch.so: no')\n"
        "class Leaves(Base):\n    def torch_version(self):\n        raise SystemExit(3)\n"
    )
    for name, words in {
        "Missing": ("No torch in ", "pip install torch"),
        "Old": ("torch 2.5.1+cu121", "older than 2.8"),
        "Broken": ("cannot be imported: OSError: libtorch.so: no",),
        "Leaves": ("cannot be imported: SystemExit: 3. Find out why",),
        "Pipeline": ("torch_that_is_absent",),
    }.items():
        engine, events = _started(processes, pipeline=f"{stub}:{name}")
        last = events[-1]
        assert isinstance(last, Unusable)
        assert all(word in f"{last.reason} {last.next_step}" for word in words), last
        assert last.reason.endswith(".")
        assert sys.executable in last.reason
        assert engine.close() == 1


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_old_python(version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    engine, events = _started(python=str(found[0]))
    assert isinstance(events[0], Starting)
    assert isinstance(events[-1], Unusable)
    assert "older than 3.10" in events[-1].reason
    assert engine.close() == 1


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_supported_pythons(version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    engine, events = _started(python=str(found[0]))
    assert isinstance(events[-1], Ready), events
    result = engine.analyze(
        """\
        import absent, os
        x = {}["a"]
        def f():  # target
            return __name__
        def crash():  # target
            import ctypes; ctypes.string_at(0)
        def needs():  # target
            return absent.x
        os._exit(1)
        """
    )
    assert set(result.troubles) == {
        ("trace/import-error", 0),
        ("trace/eager-error", 1),
        ("trace/crashed", 5),
        ("trace/crashed", 8),
    }
    assert {name: report.status for name, report in result.reports.items()} == {
        "f": "traced",
        "crash": "crashed",
        "needs": "failed",
    }
    assert engine.close() == 0


@pytest.mark.parametrize("on_path", [False, True])
def test_files_in_the_working_directory_do_not_shadow(
    tmp_path: Path, on_path: bool, processes: str
) -> None:
    names = ("torch", "typing", "json", "socket", "selectors", "host", "protocol", "dataclasses")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} is shadowed')\n")
    (tmp_path / "mine.py").write_text("x = 3\n")
    if on_path:
        # Python itself needs these at its start, and would not come up.
        for name in ("typing", "dataclasses"):
            (tmp_path / f"{name}.py").unlink()
    engine, events = _started(
        processes,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)} if on_path else {"PYTHONPATH": ""},
    )
    assert isinstance(events[-1], Ready), events
    result = engine.analyze(
        "import mine, sys\ndef f():  # target\n    return mine.x, sys.path\n",
        path=str(tmp_path / "model.py"),
    )
    assert eval(result.value("f"))[0] == 3
    engine.close()


# -- reproductions ----------------------------------------------------------------------------


def test_a_repro_is_made_in_a_clean_process_in_which_candidates_can_do_no_harm(
    engine: Engine,
) -> None:
    result = engine.reproduce("return 'go'")
    end = result.end
    assert isinstance(end, Reproduced)
    assert (end.verified, end.tried, end.reason) == (True, 4, "")
    refused = b"fullgraph runs this code only"
    first, last = result.scripts
    assert first == "first of auto go"
    assert last == repr(
        [("exit", None), ("good", b"good"), ("network", refused), ("write", refused)]
    )


def test_what_a_repro_lets_candidates_start_can_do_no_harm_either(engine: Engine) -> None:
    if not _has_landlock():
        pytest.skip("no Landlock in this kernel")
    result = engine.reproduce("return 'start'")
    refused = b"fullgraph runs this code only"
    assert result.scripts[-1] == repr(
        [("sh", refused), ("touch inside", b"0"), ("touch outside", b"1")]
    )


def test_what_the_run_that_looks_for_it_tells_is_not_told_as_an_analysis(engine: Engine) -> None:
    result = engine.reproduce("print('hello'); return 'go'")
    kinds = {type(event) for event in result.events}
    assert kinds == {Log, ReproProgress, ReproFound, Reproduced}
    assert result.log("stdout") == "hello\n"


def test_a_finding_is_looked_for_with_real_tensors_where_fake_ones_do_not_do(
    engine: Engine,
) -> None:
    assert engine.reproduce("return 'needs real'").scripts[0] == "first of real needs real"


def test_a_finding_that_is_not_there_again_is_told_with_the_reason(engine: Engine) -> None:
    end = engine.reproduce("return None").end
    assert isinstance(end, Reproduced)
    assert (end.verified, end.reason) == (False, "no stub/code here")


@pytest.mark.parametrize("order", ["crash", "raise"])
def test_a_reducer_that_dies_leaves_the_best_script_so_far(engine: Engine, order: str) -> None:
    result = engine.reproduce(f"return {order!r}")
    end = result.end
    assert isinstance(end, Reproduced)
    assert result.scripts == [f"first of auto {order}"]
    assert (end.verified, end.cancelled) == (False, False)
    assert end.reason.endswith("it crashed. The best result so far is kept.")


def test_a_repro_that_is_cancelled_ends_at_once_and_frees_its_processes(engine: Engine) -> None:
    number = engine.begin_repro("return 'hang'")
    while not isinstance(engine.event(), ReproFound):
        pass
    engine.send(Cancel(number))
    end = engine.until_end(number).end
    assert isinstance(end, Reproduced)
    assert end.cancelled
    assert engine.reproduce("return 'go'").scripts[0] == "first of auto go"


def test_a_repro_can_be_cancelled_while_the_finding_is_looked_for(engine: Engine) -> None:
    number = engine.begin_repro("print('there', flush=True); return 'sleep'")
    while not isinstance(engine.event(), Log):
        pass
    engine.send(Cancel(number))
    end = engine.until_end(number).end
    assert isinstance(end, Reproduced)
    assert end.cancelled


def test_a_file_that_does_not_parse_gives_no_repro_and_says_so(engine: Engine) -> None:
    end = engine.reproduce("return (").end
    assert isinstance(end, Failed)
    assert end.reason.startswith("The file does not parse")


def test_a_run_that_crashes_while_the_finding_is_looked_for_is_told(engine: Engine) -> None:
    end = engine.reproduce("import os; os._exit(7)").end
    assert isinstance(end, Reproduced)
    assert "exited with status 7" in end.reason


def test_a_module_has_the_loader_that_python_would_give_it() -> None:
    source = import_hook.Source("model", "/model.py", "A = 1\n", False, lambda module: None)
    module = types.ModuleType("model")
    source.exec_module(module)
    loader = module.__loader__
    assert type(loader) is SourceFileLoader
    assert loader.get_source("model") == "A = 1\n"
