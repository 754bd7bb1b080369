"""More texts than there is room for, processes that something else ends, and forged reports."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest
from tests.engine.hosts import Engine, Result, started_engine

from fullgraph_engine import protocol
from fullgraph_engine.host import shortage
from fullgraph_engine.host.process_backends import processes
from fullgraph_engine.host.wire import (
    ChildForked,
    PreambleStale,
    RunsPlanned,
    TextUnparsable,
    encode_message,
)
from fullgraph_engine.protocol import Analyzed, Cancel, Event, Limits, TargetDone

HANGS = "def f():  # target\n    return 'sleep'\n"
PLAIN = "def g():  # target\n    return 1\n"


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine, _ = started_engine("fork")
    yield engine
    engine.close()


def until_started(engine: Engine, request: int) -> list[Event]:
    seen: list[Event] = []
    while not any(isinstance(e, protocol.TargetStarted) and e.request == request for e in seen):
        event = engine.event()
        assert event is not None
        seen.append(event)
    return seen


# -- more texts than are traced at once ----------------------------------------------------------


def test_the_text_that_came_last_is_the_next(engine: Engine) -> None:
    first, second = engine.begin(HANGS), engine.begin(HANGS)
    seen = until_started(engine, first)
    if not any(isinstance(e, protocol.TargetStarted) and e.request == second for e in seen):
        until_started(engine, second)
    waiting = [engine.begin(PLAIN) for _ in range(3)]
    engine.send(Cancel(first))
    ended: list[int] = []
    while len(ended) < 4:
        event = engine.event()
        if isinstance(event, Analyzed):
            ended.append(event.request)
    assert ended == [first, *reversed(waiting)]
    engine.send(Cancel(second))
    engine.until_end(second)


def test_a_text_that_waits_can_be_cancelled(engine: Engine) -> None:
    first, second = engine.begin(HANGS), engine.begin(HANGS)
    third = engine.begin(PLAIN)
    engine.send(Cancel(third))
    result = engine.until_end(third)
    assert isinstance(result.end, Analyzed) and result.end.cancelled
    assert not result.reports
    for request in (first, second):
        engine.send(Cancel(request))
        engine.until_end(request)


def test_the_texts_of_one_client_keep_those_of_no_other_waiting(engine: Engine) -> None:
    for _ in range(2):
        engine.begin(HANGS, client=1)
    waiting = engine.begin(PLAIN, client=1)
    result = engine.analyze(PLAIN, client=2)
    assert result.reports["g"].status == "traced"
    assert waiting not in {getattr(event, "request", 0) for event in result.events}


# -- no room -------------------------------------------------------------------------------------


def test_many_texts_where_few_descriptors_are_to_be_had() -> None:
    engine, _ = started_engine("fork", descriptors=64)
    requests = {engine.begin(PLAIN, path=f"/nowhere/{n}.py") for n in range(30)}
    traced: set[int] = set()
    while requests:
        event = engine.event()
        assert event is not None, "the engine died"
        if isinstance(event, TargetDone) and event.report.status == "traced":
            traced.add(event.request)
        elif isinstance(event, Analyzed):
            assert event.request in traced
            requests.remove(event.request)
    assert engine.close() == 0


def test_what_there_may_be_room_for_later() -> None:
    assert shortage.is_short(OSError(24, "Too many open files"))
    assert not shortage.is_short(OSError(13, "Permission denied"))
    assert shortage.shortage_words(OSError(24, "Too many open files")) == "Too many open files"


# -- processes that something else ends ----------------------------------------------------------

ONCE = """\
import os, signal, tempfile
def f():  # target
    first = tempfile.gettempdir() + "/first"
    if not os.path.exists(first):
        open(first, "w").close()
        os.kill(os.getpid(), signal.{signal})
    return 1
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_run_that_is_ended_from_outside_is_run_once_more(engine: Engine, signal: str) -> None:
    result = engine.analyze(ONCE.format(signal=signal))
    assert [report.status for report in result.reports.values()] == ["traced"]
    assert not result.troubles


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_so_is_a_module(engine: Engine, signal: str) -> None:
    text = ONCE.format(signal=signal).replace("def f():  # target", "if True:")
    text = text.replace("    return 1\n", "\n" + PLAIN)
    result = engine.analyze(text)
    assert [report.status for report in result.reports.values()] == ["traced"]
    assert not result.troubles


def test_a_run_that_is_stopped_before_it_is_known_is_run_once_more(
    engine: Engine, processes: str
) -> None:
    if processes == "spawn":
        pytest.skip("the pid of what is spawned is known from its beginning")
    text = """\
        import os, tempfile
        first = tempfile.gettempdir() + "/first"
        def stop():
            if not os.path.exists(first):
                open(first, "w").close()
                os.kill(os.getpid(), 19)
        os.register_at_fork(after_in_child=stop)
        """
    limits = Limits(seconds=20.0, module_seconds=20.0)
    began = time.monotonic()
    result = engine.analyze(textwrap.dedent(text) + PLAIN, limits=limits)
    assert [report.status for report in result.reports.values()] == ["traced"]
    assert not result.troubles
    assert time.monotonic() - began < limits.seconds / 2


def test_a_run_that_stops_itself_each_time_is_reported(engine: Engine) -> None:
    result = engine.analyze("import os\ndef f():  # target\n    os.kill(os.getpid(), 19)\n")
    assert result.trouble().code == "trace/crashed"
    assert "stopped by a signal" in result.trouble().message


# -- forged reports ------------------------------------------------------------------------------


def forged(*messages: object) -> str:
    """A text that writes messages where its own process reports, and has one target."""
    lines = [encode_message(message).decode() for message in messages]  # type: ignore[arg-type]
    return (
        f"import os, stat\nlines = {lines!r}\n"
        "for n in range(3, 4096):\n"
        "    try:\n"
        "        mode = os.fstat(n).st_mode\n"
        "        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):\n"
        "            os.write(n, ('\\n'.join(lines) + '\\n').encode())\n"
        "    except OSError:\n"
        "        pass\n"
        "def f():  # target\n    return 1\n"
    )


def statuses(result: Result) -> list[str]:
    return [report.status for report in result.reports.values()]


def test_nothing_to_run_is_not_believed_of_a_target(engine: Engine) -> None:
    result = engine.analyze(forged(RunsPlanned(())))
    assert statuses(result) == ["crashed"]
    (report,) = result.reports.values()
    assert "ended without a result" in (report.error or "")


def test_a_text_that_was_parsed_is_no_text_that_does_not_parse(engine: Engine) -> None:
    result = engine.analyze(forged(TextUnparsable("never")))
    assert isinstance(result.end, Analyzed)
    assert statuses(result) == ["traced"]


def test_a_module_is_started_again_once(engine: Engine) -> None:
    limits = Limits(seconds=20.0, module_seconds=20.0)
    result = engine.analyze(forged(PreambleStale()), limits=limits)
    assert isinstance(result.end, Analyzed)
    assert statuses(result) == ["traced"]


def test_a_process_that_reports_without_end_is_ended(engine: Engine) -> None:
    text = (
        forged(RunsPlanned(()))
        .replace("'\\n'.join(lines)", "'x' * 1000000")
        .replace("        if stat", "        while stat")
    )
    begin, target = text.split("def f()", 1)
    body = textwrap.indent(begin, "    ")
    result = engine.analyze(f"def f(){target}".replace("    return 1\n", body))
    assert statuses(result) == ["crashed"]
    assert "results are larger than 256 MiB" in result.trouble().message


def test_no_pid_that_is_reported_is_sent_a_signal(engine: Engine) -> None:
    victim = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "60"])
    try:
        text = forged(*(ChildForked(number, victim) for number in range(4)))
        # Runs are numbered once they are launched: said over and over, it is said of a known one.
        begin, body = text.split("for n in range", 1)
        loop, target = ("for n in range" + body).split("def f()", 1)
        loop = textwrap.indent(loop, "        ")
        text = (
            f"import threading, time\n{begin}def say():\n    while True:\n{loop}"
            "        time.sleep(0.01)\nthreading.Thread(target=say, daemon=True).start()\n"
            f"def f(){target}"
        )
        text = text.replace("    return 1\n", "    return 'sleep'\n")
        request = engine.begin(text, limits=Limits(seconds=1.0))
        engine.until_end(request)
        assert os.waitpid(victim, os.WNOHANG) == (0, 0)
    finally:
        os.kill(victim, 9)
        os.waitpid(victim, 0)


def test_only_descendants_are_ended() -> None:
    child, sibling = (os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "60"]) for _ in range(2))
    assert processes.is_below(child)
    assert not processes.is_below(os.getppid())
    processes.kill_trees([os.getppid(), child])  # not what is below the former, either
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert not processes.is_below(child)
    assert os.waitpid(sibling, os.WNOHANG) == (0, 0)
    processes.kill_trees([sibling])
    assert os.waitstatus_to_exitcode(os.waitpid(sibling, 0)[1]) == -9


# -- a busy machine ------------------------------------------------------------------------------

WORKS = """\
import time
def f():  # target
    until = time.process_time() + 0.8
    while time.process_time() < until:
        pass
    return 1
"""


@pytest.fixture
def busy_engine() -> Iterator[Engine]:
    """An engine that shares its only processor with three processes that never rest."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    loops: list[subprocess.Popen[bytes]] = []
    try:
        engine, _ = started_engine("fork")
        loops += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        yield engine
        engine.close()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        os.sched_setaffinity(0, own)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who waits for a processor")
def test_a_run_that_waits_for_a_processor_may_take_longer(busy_engine: Engine) -> None:
    brief = Limits(seconds=0.9)
    result = busy_engine.analyze(WORKS, limits=brief)
    assert statuses(result) == ["timeout"]
    result = busy_engine.analyze(WORKS, limits=dataclasses.replace(brief, stretch=20.0))
    assert statuses(result) == ["traced"]
    assert isinstance(result.end, Analyzed)
    assert result.end.cpu is not None
    # The system counts in ticks of ten milliseconds.
    assert 0.6 <= result.end.cpu < result.end.seconds


def test_a_run_that_only_sleeps_has_no_more_time(engine: Engine) -> None:
    result = engine.analyze(HANGS, limits=Limits(seconds=0.5, stretch=20.0))
    assert statuses(result) == ["timeout"]
    assert isinstance(result.end, Analyzed)
    assert result.end.seconds < 5.0
