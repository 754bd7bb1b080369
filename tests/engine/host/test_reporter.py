"""What the server gets from an analysis: each result once, some only from the last attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from fullgraph_engine import protocol
from fullgraph_engine.host.attempts import Attempt, RunEnd, RunResult
from fullgraph_engine.host.blackbox import LastWords
from fullgraph_engine.host.reporter import Reporter
from fullgraph_engine.host.services import Services
from fullgraph_engine.host.wire import PlannedRun, RunDone
from fullgraph_engine.protocol import (
    Analyze,
    Compilation,
    Event,
    Finding,
    FindingFound,
    ForecastFound,
    Frame,
    Log,
    Mode,
    Part,
    Position,
    ProbeInfo,
    Range,
    RunId,
    RunLost,
    SelfCheck,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TargetStarted,
    TracedPaths,
    ValuesSeen,
)
from fullgraph_engine.protocol.facts import Degraded
from fullgraph_engine.protocol.paths import PathReport

PLACE = Range(Position(0, 4), Position(0, 5))
INFO = TargetInfo("f", "function", PLACE)
PLAN = PlannedRun(0, 1, INFO, PLACE, ProbeInfo("comment", ""))
REPORT = TargetReport("f", "function", PLACE, "traced", graphs=1, breaks=2)
VALUES = ValuesSeen(1, "f", "")
WORDS = LastWords(None, None, (), None, "")


class Server:
    """Stands in for the event loop, and keeps what is sent."""

    def __init__(self, *degraded: Degraded) -> None:
        self.degraded = degraded
        self.events: list[Event] = []
        self.reporter = Reporter(
            Analyze(1, "v1", "/x.py", "def f():\n    pass\n", without=("known",)),
            cast("Services", self),
        )

    def send(self, event: Event) -> None:
        self.events.append(event)

    def forward(self, line: bytes) -> None:
        self.events.append(cast("Event", protocol.decode(line.rstrip(b"\n"))))

    def received(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def take(self, result: RunResult, *messages: Any) -> list[Event]:
        """Let a run send messages, and return what the server receives."""
        for message in messages:
            self.reporter.take_run_message(result, protocol.encode(message).rstrip(), message)
        return self.received()


def found(identity: str, **options: Any) -> FindingFound:
    return FindingFound(
        1, Finding("graph-break/x", "It breaks.", PLACE, identity=identity, **options)
    )


def result(part: Part = "first", mode: Mode = "auto", done: RunDone | None = None) -> RunResult:
    return RunResult(Attempt(PLAN, mode, part), done=done)


def end(result: RunResult, **options: Any) -> RunEnd:
    options = {"cause": "it crashed", "words": WORDS, "seconds": 2.0, **options}
    return RunEnd(1, result, **options)


def test_findings_are_sent_at_once_and_values_when_the_run_has_ended() -> None:
    server, run = Server(), result(done=RunDone(REPORT, None))
    assert server.take(run, VALUES, found("a")) == [found("a")]
    server.reporter.report_run(end(run), None)
    assert server.received() == [VALUES, TargetDone(1, replace(REPORT, probe_number=1))]


def test_the_server_gets_no_messages_that_a_run_may_not_send() -> None:
    server = Server()
    assert server.take(result(), TargetStarted(1, "f"), SelfCheck(3)) == []


def test_a_repeated_run_retracts_what_only_the_first_attempt_found() -> None:
    server = Server()
    first, second = result(), result(mode="real", done=RunDone(REPORT, None))
    server.take(first, VALUES, found("a"), found("b"))
    server.take(second, found("b"))
    server.reporter.report_run(end(second), first)
    values, retracted, done = server.received()
    assert values == VALUES  # the second attempt saw none
    assert retracted == found("a", count=0)
    assert isinstance(done, TargetDone)


def test_a_message_of_a_second_module_process_is_not_sent_again() -> None:
    server, event = Server(), TargetsFound(1, (INFO,))
    for _ in range(2):
        server.reporter.forward_once(protocol.encode(event).rstrip(), event)
    assert server.received() == [event]


@pytest.mark.parametrize(("part", "times"), [("first", 2), ("paths", 1)])
def test_a_repeated_run_of_further_paths_sends_its_findings_once(part: Part, times: int) -> None:
    server = Server()
    assert server.take(result(part), found("a")) + server.take(result(part), found("a")) == (
        times * [found("a")]
    )


def test_counts_that_torch_does_not_show_are_hidden() -> None:
    server = Server(Degraded("breaks", "a name is missing"))
    server.reporter.report_observation(result("measure", done=RunDone(REPORT, None)))
    (event,) = server.received()
    assert isinstance(event, TargetDone)
    assert (event.report.graphs, event.report.breaks) == (1, None)


@pytest.mark.parametrize(
    ("words", "late", "code", "where"),
    [
        (WORDS, False, "trace/crashed", PLACE),
        (WORDS, True, "trace/timeout", PLACE),
        (
            replace(WORDS, stack=(Frame("/x.py", "f", 1), Frame("/y.py", "g", 7))),
            False,
            "trace/crashed",
            Range(Position(1, 4), Position(1, 8)),
        ),
        (
            replace(WORDS, place=Range(Position(1, 0), Position(1, 1))),
            False,
            "trace/crashed",
            Range(Position(1, 0), Position(1, 1)),
        ),
    ],
)
def test_a_crash_is_a_finding_where_the_run_was(
    words: LastWords, late: bool, code: str, where: Range
) -> None:
    server = Server()
    server.reporter.report_run(end(result(), words=words, late=late), None)
    finding, done = server.received()
    assert isinstance(finding, FindingFound) and isinstance(done, TargetDone)
    assert (finding.finding.code, finding.finding.range) == (code, where)
    assert done.report.status == code.removeprefix("trace/")
    assert (done.report.error, done.report.seconds) == ("it crashed", 2.0)


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        ("first", [TargetDone]),
        ("second", [RunLost]),
        ("forecast", [ForecastFound]),
        ("cases", [TargetDone]),
    ],
)
def test_a_run_that_never_began_is_reported(part: Part, kinds: list[type]) -> None:
    server = Server()
    server.reporter.report_unstarted(Attempt(PLAN, "auto", part), "No memory")
    assert [type(event) for event in server.received()] == kinds


def test_targets_without_a_report_are_reported_in_the_end() -> None:
    server = Server()
    others = [replace(INFO, name=name) for name in ("g", "known")]
    event = TargetsFound(1, (INFO, *others))
    server.reporter.forward_once(protocol.encode(event).rstrip(), event)
    server.reporter.report_run(end(result(done=RunDone(REPORT, None))), None)
    server.received()
    server.reporter.report_silent("the module failed", "timeout")
    (silent,) = server.received()
    assert isinstance(silent, TargetDone)
    assert (silent.report.name, silent.report.status) == ("g", "timeout")


def test_further_paths_are_added_to_the_report_of_the_first_run() -> None:
    server, first = Server(), result(done=RunDone(REPORT, None))
    server.take(first, found("a"), found("b"))
    paths = (PathReport("in training mode", "traced", ""),)
    done = RunDone(replace(REPORT, paths=paths), None, paths=TracedPaths(paths, ("b",), True))
    server.reporter.report_paths(first, done)
    narrowed, again = server.received()
    assert isinstance(narrowed, FindingFound) and isinstance(again, TargetDone)
    assert (narrowed.finding.identity, narrowed.finding.only) == ("b", "in training mode")
    assert (again.report.paths, again.report.probe_number) == (paths, 1)
    server.reporter.report_missing_paths(first, "late", "others took the time")
    (missing,) = server.received()
    assert isinstance(missing, TargetDone)
    assert [(one.status, one.reason) for one in missing.report.paths] == [
        ("late", "others took the time")
    ]


def test_a_compilation_and_paths_are_added_to_the_same_report() -> None:
    server, first = Server(), result(done=RunDone(REPORT, None))
    paths = (PathReport("in training mode", "traced"),)
    traced = RunDone(replace(REPORT, paths=paths), None, paths=TracedPaths(mode=True))
    server.reporter.report_compilation(first, Compilation("inductor"))
    server.reporter.report_paths(first, traced)
    (compiled, both) = server.received()
    assert isinstance(compiled, TargetDone) and isinstance(both, TargetDone)
    assert (compiled.report.compilation, compiled.report.paths) == (Compilation("inductor"), ())
    assert (both.report.compilation, both.report.paths) == (Compilation("inductor"), paths)


def test_a_lost_compilation_is_a_finding_and_leaves_the_report_of_the_trace() -> None:
    server, first = Server(), result(done=RunDone(REPORT, None))
    attempt = Attempt(PLAN, "auto", "backend")
    server.reporter.report_missing_compilation(first, attempt, "it took longer than 5 seconds")
    lost, again, finding = server.received()
    assert lost == RunLost(1, RunId("f", 1, "backend"))
    assert isinstance(again, TargetDone) and isinstance(finding, FindingFound)
    compilation = again.report.compilation
    assert compilation is not None
    assert (compilation.status, again.report.status) == ("not-computed", "traced")
    assert compilation.reason == "It took longer than 5 seconds."
    assert (finding.finding.code, finding.finding.range) == ("backend/incomplete", PLACE)
    assert finding.finding.message.endswith("`: it took longer than 5 seconds")


def test_a_target_starts_once() -> None:
    server = Server()
    for probe in range(2):
        server.reporter.report_start(replace(PLAN, probe=probe))
    assert server.received() == [TargetStarted(1, "f")]


def test_output_of_the_module_is_forwarded() -> None:
    server, log = Server(), Log(1, "engine", "words")
    server.reporter.forward(protocol.encode(log).rstrip())
    assert server.received() == [log]
