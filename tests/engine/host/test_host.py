"""The way of a request through the engine's processes."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, Result, spot

from fullgraph_engine.protocol import (
    Analyzed,
    FindingFound,
    Limits,
    Prioritize,
    RunId,
    SelfCheck,
    SelfChecked,
    TargetDone,
    TargetsFound,
    TargetStarted,
    Timings,
    ValuesSeen,
)


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
    end = result.end
    assert isinstance(end, Analyzed)
    assert (end.request, end.generation, end.cancelled) == (
        engine.requests,
        f"v{engine.requests}",
        False,
    )


def test_timings_come_for_those_who_ask(engine: Engine) -> None:
    text = "import time\ntime.sleep(0.05)\ndef f():  # target 2\n    return 7\n"
    plain = engine.analyze(text)
    # Of a path that no other test has, so that no process has executed the imports.
    timed = engine.analyze(text, timings=True, parts=("first",), jobs=1, path="/nowhere/timed.py")
    assert not any(isinstance(event, Timings) for event in plain.events)
    told = [event for event in timed.events if isinstance(event, Timings)]
    assert isinstance(timed.events[-2], Timings)  # the whole request, when all is known
    assert [one.run for one in told[:-1]] == [RunId("f", 0), RunId("f", 1)]
    whole = told[-1]
    names = [phase.phase for phase in whole.phases if phase.phase != "staying"]
    assert names == ["waiting", "process", "reading", "imports", "module", "planning"]
    took = {phase.phase: phase.seconds for phase in whole.phases}
    assert whole.seconds > took["module"] >= 0.05 > took["waiting"]
    assert sum(took.values()) <= whole.seconds
    for one in told[:-1]:
        assert [phase.phase for phase in one.phases] == ["process", "findings", "sending"]
        assert one.seconds == pytest.approx(sum(phase.seconds for phase in one.phases))


def test_targets_nearest_to_the_edit_go_first(engine: Engine) -> None:
    text = "".join(f"def f{n}():  # target\n    return {n}\n" for n in range(5))
    result = engine.analyze(text, focus=6, jobs=1)
    started = [event.name for event in result.events if isinstance(event, TargetStarted)]
    assert started[0] == "f3"
    assert set(started[1:3]) == {"f2", "f4"}
    found = next(event for event in result.events if isinstance(event, TargetsFound))
    assert [target.name for target in found.targets] == ["f0", "f1", "f2", "f3", "f4"]


def test_targets_that_are_looked_at_later_go_first(engine: Engine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    text = (
        "import os, time\n"
        f"def f0():  # target\n    while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    )
    text += "".join(f"def f{n}():  # target\n    return {n}\n" for n in range(1, 5))
    request = engine.begin(text, jobs=1, focus=1, parts=("first",))
    while not isinstance(engine.event(), TargetStarted):
        pass
    engine.send(Prioritize(request, 7, 8))
    engine.send(Prioritize(request + 1, 3, 3))  # of no request
    engine.send(SelfCheck(request + 2))  # its answer shows that the engine has read the others
    while not isinstance(engine.event(), SelfChecked):
        pass
    gate.touch()
    result = engine.until_end(request)
    started = [event.name for event in result.events if isinstance(event, TargetStarted)]
    assert started == ["f3", "f2", "f4", "f1"]


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
    known = engine.analyze("def f():  # target\n    return 'needs real'\n", real=("f",))
    assert [one.message for one in known.findings if one.code == "stub/began"] == ["f 0 real"]
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
        return [value.name for event in told for value in event.unpack_values()]

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
