"""Which run is the next, and what the end of a run means: decided without a process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fullgraph_engine.host.attempts import RunEnd, RunResult
from fullgraph_engine.host.blackbox import LastWords
from fullgraph_engine.host.found import FoundProbes
from fullgraph_engine.host.module_plan import AfterModule, ModulePlan
from fullgraph_engine.host.plan import RunPlan
from fullgraph_engine.host.shortage import Shortage
from fullgraph_engine.host.speculation import Expected, ExpectedPaths
from fullgraph_engine.host.tasks import (
    Finish,
    Launch,
    LaunchEnclosing,
    ReportCompilation,
    ReportEqualCalls,
    ReportLostRun,
    ReportMissingCompilation,
    ReportMissingForecast,
    ReportMissingPaths,
    ReportObservation,
    ReportPaths,
    ReportRun,
    ReportSkipped,
    ReportUnstarted,
    ReportWithin,
    StopRun,
    Task,
)
from fullgraph_engine.host.wire import (
    BranchAnswer,
    BranchBegun,
    CallersEnded,
    PlannedRun,
    RunDone,
    SkippedStatement,
    SnapshotTaken,
)
from fullgraph_engine.protocol import (
    Analyze,
    Compilation,
    Coverage,
    FoundProbe,
    GivenCall,
    GivenCalls,
    Limits,
    Observe,
    Part,
    Position,
    ProbeInfo,
    ProbeOrigin,
    Range,
    Status,
    TargetInfo,
    TargetReport,
    UncalledTarget,
)

PATH = "/x.py"
WORDS = LastWords(None, None, (), None, "")
REAL_CALL, FAKE_CALL = GivenCall("a", real=True), GivenCall("a")


def planned(
    target: int = 0, probe: int = 0, *, origin: ProbeOrigin = "comment", **options: Any
) -> PlannedRun:
    """A run of the target ``f0``, ``f1`` …, which is on the line of its number."""
    place = Range(Position(target, 0), Position(target, 1))
    info = TargetInfo(f"f{target}", "function", place)
    return PlannedRun(target, probe, info, place, ProbeInfo(origin, "", source="main"), **options)


def done(planned: PlannedRun, **options: Any) -> RunDone:
    status, error = options.pop("status", "traced"), options.pop("error", None)
    info = planned.info
    report = TargetReport(info.name, info.kind, info.range, status, error=error)
    return RunDone(report, options.pop("needs_real", None), **options)


class Played:
    """A plan, and the runs that it has launched."""

    def __init__(self, *runs: PlannedRun, until: float = float("inf"), **options: Any) -> None:
        options = {"jobs": 1, "parts": ("first",), "limits": Limits(seconds=10.0), **options}
        self.found = options.pop("found", None) or FoundProbes()
        self.expected = options.pop("expected", None) or ExpectedPaths()
        request = Analyze(1, "v1", PATH, "", **options)
        self.plan = RunPlan(request, self.found, self.expected, until)
        if runs:
            self.plan.add_runs(runs)

    def launch(self, now: float = 0.0) -> Launch:
        """The run that the plan launches next."""
        task = self.plan.next_task(now)
        assert isinstance(task, Launch)
        return task

    def end(self, launch: Launch, done: RunDone | None = None, **options: Any) -> list[Task]:
        """End a run: with a result, or as ``options`` say."""
        result = RunResult(launch.attempt, launch.call, done, **options.pop("result", {}))
        options = {"cause": "it crashed", "words": WORDS, "seconds": 1.0, **options}
        return self.plan.end_run(RunEnd(launch.command.number, result, **options))

    def is_over(self) -> bool:
        return isinstance(self.plan.next_task(0.0), Finish)


def place_of(launch: Launch) -> tuple[int, int, Part]:
    return launch.command.target, launch.command.probe, launch.command.part


def play(played: Played) -> list[tuple[int, int, Part]]:
    """End each run with a plain result; return the runs in the order of their launches."""
    order = []
    while isinstance(launch := played.plan.next_task(0.0), Launch):
        order.append(place_of(launch))
        played.end(launch, done(launch.attempt.plan))
    assert isinstance(launch, Finish)
    return order


# -- the order of runs -----------------------------------------------------------------------------


def test_runs_near_the_lines_that_are_looked_at_are_the_next() -> None:
    played = Played(*map(planned, range(5)), parts=("first", "second"))
    first = played.launch()
    assert place_of(first) == (0, 0, "first")
    played.plan.prioritize(3, 4)
    played.end(first, done(first.attempt.plan))
    order = play(played)
    assert [target for target, _, part in order if part == "first"] == [3, 4, 2, 1]
    assert [target for target, _, _ in order[4:]] == [3, 4, 2, 1, 0]


def test_lines_that_are_looked_at_count_for_runs_that_are_planned_later() -> None:
    played = Played()
    played.plan.prioritize(2, 2)
    played.plan.add_runs(map(planned, range(4)))
    assert played.launch().attempt.plan.target == 2


FILE_LIMITS = Limits(seconds=10.0, file_seconds=5.0)


def test_when_the_time_of_the_file_is_up_no_further_target_is_traced() -> None:
    played = Played(*map(planned, range(3)), parts=("first", "second"), limits=FILE_LIMITS)
    first = played.launch(now=100.0)
    played.end(first, done(first.attempt.plan))
    played.plan.prioritize(2, 2)
    second = played.launch(now=104.9)
    assert place_of(second) == (2, 0, "first")
    played.end(second, done(second.attempt.plan))
    assert played.plan.next_task(105.0) == ReportSkipped(planned(1))
    # Targets whose trace has begun are traced to the end.
    rest = [played.plan.next_task(200.0)]
    assert isinstance(rest[0], Launch)
    played.end(rest[0], done(rest[0].attempt.plan))
    rest.append(played.plan.next_task(200.0))
    assert isinstance(rest[1], Launch)
    played.end(rest[1], done(rest[1].attempt.plan))
    assert sorted(place_of(one) for one in rest if isinstance(one, Launch)) == [
        (0, 0, "second"),
        (2, 0, "second"),
    ]
    assert played.is_over()


def test_the_time_of_the_file_does_not_count_what_runs_waited_for_a_processor() -> None:
    limits = replace(FILE_LIMITS, stretch=2.0)
    played = Played(*map(planned, range(4)), limits=limits, jobs=2)
    first, second = played.launch(now=100.0), played.launch(now=100.0)
    played.end(first, done(first.attempt.plan), waited=6.0)
    # Half of it counts, because two runs at once wait at the same time.
    third = played.launch(now=107.9)
    assert played.plan.next_task(108.0) == ReportSkipped(planned(3))
    played.end(second, done(second.attempt.plan), waited=100.0)
    played.end(third, done(third.attempt.plan))
    assert played.plan.next_task(109.9) == Finish()


def test_the_time_of_the_file_grows_at_most_by_the_factor_of_the_request() -> None:
    limits = replace(FILE_LIMITS, stretch=2.0)
    played = Played(*map(planned, range(3)), limits=limits)
    first = played.launch(now=100.0)
    played.end(first, done(first.attempt.plan), waited=50.0)
    second = played.launch(now=109.9)
    played.end(second, done(second.attempt.plan))
    assert played.plan.next_task(110.0) == ReportSkipped(planned(2))


def test_targets_that_are_named_have_no_time_of_the_file() -> None:
    played = Played(*map(planned, range(2)), limits=FILE_LIMITS, only=("f0", "f1"))
    first = played.launch(now=100.0)
    played.end(first, done(first.attempt.plan))
    assert place_of(played.launch(now=500.0)) == (1, 0, "first")


def test_a_run_that_waits_for_a_skipped_target_is_not_held_up() -> None:
    played = Played(planned(0), planned(1), planned(2, after=(1,)), limits=FILE_LIMITS)
    first = played.launch(now=0.0)
    played.end(first, done(first.attempt.plan))
    assert [played.plan.next_task(6.0) for _ in range(3)] == [
        ReportSkipped(planned(1)),
        ReportSkipped(planned(2, after=(1,))),
        Finish(),
    ]


def test_targets_near_the_last_edit_run_first_and_parts_in_their_order() -> None:
    played = Played(planned(0), planned(1), planned(5), focus=2, parts=("first", "second"))
    firsts = [(1, 0, "first"), (0, 0, "first"), (5, 0, "first")]
    assert play(played) == [*firsts, *((target, 0, "second") for target, _, _ in firsts)]


def test_a_file_without_runs_is_over_at_once_but_not_before_the_module_was_executed() -> None:
    played = Played()
    assert played.plan.next_task(0.0) is None
    played.plan.add_runs(())
    assert played.is_over()


def test_no_more_runs_at_once_than_the_request_allows() -> None:
    played = Played(*map(planned, range(3)), jobs=2)
    first, _ = played.launch(), played.launch()
    assert played.plan.next_task(0.0) is None
    assert played.plan.waiting == 1
    played.end(first, done(planned()))
    assert place_of(played.launch()) == (2, 0, "first")


def test_a_run_waits_for_those_that_it_names() -> None:
    assert play(Played(planned(0, after=(2,)), planned(1), planned(2))) == [
        (1, 0, "first"),
        (2, 0, "first"),
        (0, 0, "first"),
    ]


def test_runs_that_wait_for_each_other_are_launched_in_the_end() -> None:
    played = Played(planned(0, after=(1,)), planned(1, after=(0,)), jobs=2)
    launch = played.launch()
    assert place_of(launch) == (0, 0, "first")
    assert played.plan.next_task(0.0) is None
    played.end(launch, done(planned()))
    assert place_of(played.launch()) == (1, 0, "first")


def test_further_parts_wait_for_the_search_for_inputs() -> None:
    played = Played(planned(origin="synthesis"), jobs=2, parts=("first", "second"))
    first = played.launch()
    assert played.plan.next_task(0.0) is None
    played.end(first, done(planned()))
    assert place_of(played.launch()) == (0, 0, "second")


def test_a_target_without_inputs_has_no_further_parts() -> None:
    unfound = FoundProbe("f0", obstacle="No size fits.")
    played = Played(planned(origin="synthesis"), parts=("first", "second"))
    played.end(played.launch(), done(planned(), status="no-probe", unfound=unfound))
    assert played.is_over()
    assert played.found.entries_of(PATH) == {"f0": unfound}


def test_waiting_runs_start_as_far_as_the_first_run_requests_them() -> None:
    waiting = [planned(probe=number, waits=True) for number in (1, 2, 3)]
    played = Played(planned(), *waiting, parts=("first", "second"))
    first = played.launch()
    assert played.plan.waiting == 1  # the second part
    played.end(first, done(planned(), further=2))
    assert play(played) == [(0, 1, "first"), (0, 2, "first"), *((0, n, "second") for n in range(3))]


@pytest.mark.parametrize(
    ("options", "probes"),
    [
        ({"parts": ("first",)}, [0]),
        ({"parts": ("behavior",), "observe": Observe(1.0, (), last_probe=1)}, [0, 1]),
        ({"parts": ("candidates",)}, [0, 1, 2]),
    ],
)
def test_waiting_runs_that_are_needed_anyway(options: dict[str, Any], probes: list[int]) -> None:
    played = Played(*(planned(probe=n, waits=n > 0) for n in range(3)), **options)
    assert [probe for _, probe, _ in play(played)] == probes


# -- the end of a run ------------------------------------------------------------------------------

NO_GPU = "RuntimeError: No CUDA GPUs are available"
QUESTION, ANSWER = BranchBegun("training", 1.0), BranchAnswer("training", "packed")


@pytest.mark.parametrize(
    ("mode", "real", "ended", "again"),
    [
        # What the run does again, as changes of its attempt; None if it is reported.
        pytest.param("auto", (), {"done": done(planned())}, None, id="traced"),
        pytest.param("auto", (), {}, None, id="crashed"),
        pytest.param("auto", (), {"late": True}, None, id="late"),
        pytest.param("auto", (), {"killed": True}, {"again": True}, id="killed"),
        pytest.param("auto", (), {"done": done(planned()), "killed": True}, None, id="complete"),
        pytest.param(
            "auto",
            (),
            {"done": done(planned(), needs_real="a value")},
            {"mode": "real"},
            id="value",
        ),
        pytest.param(
            "fake", (), {"done": done(planned(), needs_real="a value")}, None, id="only fake"
        ),
        pytest.param(
            "auto", ("f0",), {"done": done(planned(), error=NO_GPU)}, {"mode": "fake"}, id="no GPU"
        ),
        pytest.param("real", (), {"done": done(planned(), error=NO_GPU)}, None, id="only real"),
        pytest.param(
            "auto",
            (),
            {"answer": ANSWER, "result": {"question": QUESTION, "answer": ANSWER}},
            {"answers": (ANSWER,)},
            id="answer",
        ),
    ],
)
def test_a_run_is_reported_or_repeated(
    mode: Any, real: tuple[str, ...], ended: dict[str, Any], again: dict[str, Any] | None
) -> None:
    played = Played(planned(), mode=mode, real=real)
    launch = played.launch()
    tasks = played.end(launch, **ended)
    if again is None:
        assert [type(task) for task in tasks] == [ReportRun]
        assert played.is_over()
    else:
        assert tasks == []
        repeated = played.launch()
        assert repeated.attempt == replace(launch.attempt, **again)
        assert repeated.command.number > launch.command.number


def test_a_run_that_is_killed_twice_is_given_up() -> None:
    played = Played(planned())
    assert played.end(played.launch(), killed=True) == []
    (task,) = played.end(played.launch(), killed=True)
    assert isinstance(task, ReportRun)
    assert task.end.reason == "it crashed"
    assert played.is_over()


def test_the_report_of_a_repeated_run_replaces_what_the_first_attempt_found() -> None:
    played = Played(planned())
    seen = {"seen": [b"values"]}
    played.end(played.launch(), done(planned(), needs_real="a value"), result=seen)
    (task,) = played.end(played.launch(), done(planned()))
    assert isinstance(task, ReportRun)
    assert task.before is not None and task.before.seen == [b"values"]


@pytest.mark.parametrize(
    ("part", "reports"),
    [
        ("first", [ReportRun]),
        ("second", [ReportLostRun]),
        ("forecast", [ReportMissingForecast]),
        ("export", [ReportLostRun]),
        ("prepare", [ReportUnstarted]),
        ("measure", [ReportUnstarted]),
        ("candidates", [ReportRun]),
        ("cases", [ReportUnstarted]),
        ("behavior", [ReportUnstarted]),
        ("behavior-again", [ReportUnstarted]),
    ],
)
def test_what_is_reported_of_a_run_that_crashes(part: Part, reports: list[type]) -> None:
    played = Played(planned(), parts=(part,))
    assert [type(task) for task in played.end(played.launch())] == reports
    assert played.is_over()


def test_what_is_reported_of_complete_runs() -> None:
    for part in ("prepare", "measure", "cases", "behavior", "behavior-again"):
        played = Played(planned(), parts=(part,))
        (task,) = played.end(played.launch(), done(planned()))
        assert isinstance(task, ReportObservation)
    played = Played(planned(), parts=("forecast",))
    assert played.end(played.launch(), done(planned()), result={"forecast_sent": True}) == []


@pytest.mark.parametrize(
    ("comment", "status", "kept"),
    [("x=f32[2]", "traced", True), ("", "traced", False), ("", "failed", True)],
)
def test_inputs_that_a_search_found_are_kept_until_the_text_calls_the_target(
    comment: str, status: str, kept: bool
) -> None:
    found, origin = FoundProbes(), "synthesis" if comment else "comment"
    found.add(PATH, "f0", FoundProbe("f0", "x=f32[1]"))
    played = Played(planned(), found=found)
    launch = played.launch()
    assert [one.settled for one in launch.command.found] == [False]
    result = done(planned(), status=status)
    probe = ProbeInfo(origin, "", comment=comment)  # type: ignore[arg-type]
    played.end(launch, replace(result, report=replace(result.report, probe=probe)))
    assert ("f0" in found.entries_of(PATH)) == kept
    if comment:
        assert found.entries_of(PATH)["f0"].comment == comment


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "seconds"), [(0.0, 10.0), (95.0, 5.0), (101.0, 0.0)])
def test_a_run_ends_before_the_time_of_the_request(now: float, seconds: float) -> None:
    played = Played(planned(), until=100.0)
    assert played.launch(now).command.seconds == seconds


def test_forecasts_share_their_time() -> None:
    played = Played(*map(planned, range(3)), parts=("forecast",), forecast_seconds=4.0)
    first = played.launch(100.0)
    assert first.command.seconds == 4.0
    played.end(first, result={"forecast_sent": True})
    second = played.launch(103.0)
    assert second.command.seconds == 1.0
    played.end(second, late=True)
    task = played.plan.next_task(104.0)
    note = "Not tried: the file's time limit for runs of this kind, 4 seconds, was reached."
    assert task == ReportMissingForecast(planned(2), note)
    assert played.is_over()


def test_a_forecast_with_answers_completes_without_further_time() -> None:
    played = Played(planned(), parts=("forecast",), forecast_seconds=4.0)
    played.end(played.launch(), answer=ANSWER)
    command = played.launch(5.0).command
    assert (command.last, command.answers, command.seconds) == (True, (ANSWER,), 10.0)


def test_paths_without_time_are_reported_with_the_first_run() -> None:
    played = Played(planned(0), planned(1), parts=("first", "paths"), path_seconds=4.0)
    for target in range(2):
        played.end(played.launch(), done(planned(target), known="state"))
    paths = played.launch(100.0)
    assert (paths.command.part, paths.command.known) == ("paths", "state")
    (late,) = played.end(paths, late=True, cause="it was late")
    assert isinstance(late, ReportMissingPaths)
    assert (late.status, late.reason) == ("late", "it was late")
    task = played.plan.next_task(104.0)
    assert isinstance(task, ReportMissingPaths)
    assert task.first.attempt.plan == planned(1)
    reason = "the file's time limit for runs of this kind, 4 seconds, was reached"
    assert (task.status, task.reason) == ("late", reason)


# -- processes that do not start, and the end of the module ----------------------------------------


def test_a_run_without_a_process_is_launched_later_or_given_up() -> None:
    played = Played(planned(0), planned(1))
    first = played.launch()
    played.plan.put_back(first.command.number)
    again = played.launch()
    assert again.attempt == first.attempt
    assert played.plan.refuse_run(again.command.number, "no memory") == [
        ReportUnstarted(first.attempt, "No process could be started to trace the target: no memory")
    ]
    assert place_of(played.launch()) == (1, 0, "first")


def test_runs_that_were_not_launched_are_lost_with_the_module() -> None:
    played = Played(planned(0), planned(1), parts=("first", "second"), jobs=1)
    played.end(played.launch())
    error = "the module ended: it crashed"
    tasks = played.plan.lose_runs(error)
    assert all(isinstance(task, ReportUnstarted) for task in tasks)
    assert [(one.attempt.part, one.error, one.lost) for one in tasks] == [  # type: ignore[union-attr]
        ("first", "The module ended: it crashed", error),
        ("second", "The module ended: it crashed", ""),
        ("second", "The module ended: it crashed", ""),
    ]
    assert played.is_over()


def test_after_a_restart_all_runs_are_planned_again() -> None:
    runs = planned(0), planned(1)
    played = Played(*runs)
    played.end(played.launch(), done(planned()))
    played.launch()
    played.plan.restart()
    assert played.plan.next_task(0.0) is None
    played.plan.add_runs(runs)
    assert play(played) == [(0, 0, "first"), (1, 0, "first")]


@pytest.mark.parametrize(
    ("before", "statement", "killed", "planned", "after"),
    [
        ([], 3, True, False, "repeat"),
        ([], None, True, True, "repeat"),
        ([(None, True)], 3, True, False, "skip statement"),
        ([], 3, False, True, "lose runs"),
        ([], 3, False, False, "skip statement"),
        ([], None, False, False, "give up"),
        ([(3, False)], 3, False, False, "give up"),
        ([(3, False)], 4, False, False, "skip statement"),
        ([(1, False), (2, False), (3, False)], 4, False, False, "give up"),
    ],
)
def test_what_follows_the_end_of_the_module(
    before: list[tuple[int | None, bool]],
    statement: int | None,
    killed: bool,
    planned: bool,
    after: AfterModule,
) -> None:
    plan = ModulePlan()
    for earlier, was_killed in before:
        plan.handle_end(earlier, "", killed=was_killed, planned=False)
    known = plan.begin()
    assert plan.handle_end(statement, "it hung", killed=killed, planned=planned) == after
    added = (SkippedStatement(statement or 0, "it hung"),) if after == "skip statement" else ()
    assert plan.begin() == (*known, *added)


def test_a_text_that_was_parsed_is_not_unparsable() -> None:
    plan = ModulePlan()
    plan.begin()
    plan.add_targets()
    assert not plan.handle_unparsable("forged")
    assert plan.unparsable is None
    plan.begin()
    assert plan.handle_unparsable("invalid syntax")
    assert plan.unparsable == "invalid syntax"


def test_a_module_process_is_restarted_once_without_the_saved_process() -> None:
    plan = ModulePlan()
    assert [plan.handle_stale(), plan.handle_stale()] == [True, False]


def test_a_shortage_is_waited_for_but_not_without_end() -> None:
    shortage = Shortage()
    assert shortage.begin(100.0)
    assert shortage.may_wait(100.0, made_room=False, active=False)
    assert shortage.retry_at == 100.5
    assert not shortage.begin(119.0)
    assert shortage.may_wait(119.0, made_room=True, active=False)
    assert shortage.retry_at == 119.0
    assert shortage.may_wait(121.0, made_room=False, active=True)
    assert not shortage.may_wait(121.0, made_room=False, active=False)
    assert shortage.retry_at == float("inf")
    shortage.end()
    assert shortage.begin(130.0)


# -- enclosing runs --------------------------------------------------------------------------------


def called(target: int, probe: int, call: GivenCall | None = None) -> SnapshotTaken:
    return SnapshotTaken(target, probe, call, "line 9")


def enclosed(*probes: int, **options: Any) -> Played:
    """A target that an enclosing run calls: the first of its inputs runs, the others wait."""
    runs = (planned(probe=number, waits=number > 0, shared=7) for number in probes)
    return Played(*runs, **options)


def test_a_run_waits_for_the_call_of_its_target_and_starts_from_there() -> None:
    played = enclosed(0)
    task = played.plan.next_task(0.0)
    assert isinstance(task, LaunchEnclosing)
    assert (task.key, task.command.mode, task.command.shared) == ((7, False), "fake", 7)
    assert played.plan.next_task(0.0) is None
    played.plan.add_snapshot((7, False), called(0, 0, FAKE_CALL))
    launch = played.launch()
    assert (launch.enclosing, launch.call) == ((7, False), FAKE_CALL)


@pytest.mark.parametrize("reason", ["refused", "over", "lost"])
def test_a_run_whose_target_is_not_called_starts_from_the_module(reason: str) -> None:
    played = enclosed(0)
    played.plan.next_task(0.0)
    if reason == "refused":
        played.plan.refuse_enclosing((7, False))
    elif reason == "over":
        played.plan.end_enclosing((7, False))
    else:
        played.plan.add_snapshot((7, False), called(0, 0))
        played.plan.end_enclosing((7, False), lost=True)
    assert played.launch().enclosing is None


def test_a_run_learns_that_the_callers_did_not_call_its_target() -> None:
    played = enclosed(0)
    played.plan.next_task(0.0)
    uncalled = UncalledTarget("f0", "g ran, and did not call f0.", may_use_real=True)
    played.plan.add_uncalled((7, False), CallersEnded((uncalled,)))
    played.plan.end_enclosing((7, False))
    launch = played.launch()
    assert launch.command.uncalled == uncalled
    again = replace(done(planned(shared=7)), needs_real="values")
    played.end(launch, again)
    task = played.plan.next_task(0.0)
    assert isinstance(task, LaunchEnclosing) and task.key == (7, True)
    played.plan.end_enclosing(task.key)
    assert played.launch().command.uncalled is None, "only with fake tensors is it known"


def test_every_further_call_is_traced_until_the_enclosing_run_is_over() -> None:
    played = enclosed(0, 1, 2)
    played.plan.next_task(0.0)
    for probe in (0, 1):
        played.plan.add_snapshot((7, False), called(0, probe))
    played.end(played.launch(), done(planned(shared=7)))
    second = played.launch()
    assert (place_of(second), second.enclosing) == ((0, 1, "first"), (7, False))
    played.end(second, done(planned(shared=7)))
    assert played.plan.next_task(0.0) is None  # there may be a third call
    played.plan.end_enclosing((7, False))
    assert played.is_over()


@pytest.mark.parametrize(
    ("given", "mode", "calls", "equal"),
    [
        (REAL_CALL, "auto", [REAL_CALL], True),
        (FAKE_CALL, "auto", [FAKE_CALL], True),
        (FAKE_CALL, "auto", [GivenCall("b")], False),
        (FAKE_CALL, "auto", [FAKE_CALL, FAKE_CALL], False),
        (FAKE_CALL, "auto", [], False),
    ],
)
def test_a_target_that_is_called_as_before_is_not_traced(
    given: GivenCall, mode: Any, calls: list[GivenCall], equal: bool
) -> None:
    played = enclosed(0, 1, mode=mode, given=(GivenCalls("f0", (given,)),))
    task = played.plan.next_task(0.0)
    assert isinstance(task, LaunchEnclosing)
    assert task.key == (7, given.real)
    for probe, call in enumerate(calls):
        played.plan.add_snapshot(task.key, called(0, probe, call))
    assert played.plan.next_task(0.0) is None  # until all calls are known
    tasks = played.plan.end_enclosing(task.key)
    if equal:
        assert tasks == [ReportEqualCalls(planned(shared=7), ("line 9",))]
        assert played.is_over()
    else:
        assert tasks == []
        assert place_of(played.launch()) == (0, 0, "first")


# -- compilation -----------------------------------------------------------------------------------


def compiling(*runs: PlannedRun, **options: Any) -> Played:
    """A plan whose targets are compiled for up to 5 seconds after their trace."""
    options = {"compiler": "inductor", "compiler_seconds": 5.0, **options}
    return Played(*(runs or (planned(),)), **{"parts": ("first", "backend"), **options})


def test_a_target_is_compiled_after_its_trace_within_a_time_limit_of_its_own() -> None:
    played = compiling(planned(0), planned(1))
    first = played.launch()
    played.end(first, done(planned(0)))
    # Dynamo's findings of the other target come first.
    other = played.launch()
    assert place_of(other) == (1, 0, "first")
    played.end(other, done(planned(1)))
    compiled = played.launch()
    assert place_of(compiled) == (0, 0, "backend")
    assert (first.command.seconds, compiled.command.seconds) == (10.0, 5.0)


def test_the_result_of_the_compilation_is_added_to_the_report() -> None:
    played = compiling()
    played.end(played.launch(), done(planned()))
    result = Compilation("inductor")
    ended = done(planned())
    ended = replace(ended, report=replace(ended.report, compilation=result))
    (task,) = played.end(played.launch(), ended)
    assert isinstance(task, ReportCompilation)
    assert task.compilation == result
    assert task.first.attempt.part == "first"
    assert played.is_over()


@pytest.mark.parametrize("how", ["crashed", "reported nothing", "not started", "lost"])
def test_a_compilation_without_a_result_is_reported_as_missing(how: str) -> None:
    played = compiling()
    played.end(played.launch(), done(planned()))
    if how == "lost":
        (task,) = played.plan.lose_runs("it crashed")
    else:
        compiled = played.launch()
        if how == "not started":
            (task,) = played.plan.refuse_run(compiled.command.number, "it crashed")
        else:
            result = done(planned()) if how == "reported nothing" else None
            (task,) = played.end(compiled, result)
    assert isinstance(task, ReportMissingCompilation)
    assert ("it crashed" in task.reason.lower()) == (how != "reported nothing")
    assert played.is_over()


def test_a_target_that_fails_is_not_compiled() -> None:
    played = compiling()
    played.end(played.launch(), done(planned(), status="failed"))
    assert played.is_over()


# -- speculation -----------------------------------------------------------------------------------


def speculating(**options: Any) -> tuple[Played, Launch, Launch]:
    """The first run of a target, and the run that computes in advance how its paths begin."""
    expected = ExpectedPaths()
    expected.add(PATH, ("f0", 0), Expected("fake", "before"))
    options = {"jobs": 2, "parts": ("first", "paths"), "mode": "fake", **options}
    played = Played(planned(), expected=expected, **options)
    first, early = played.launch(), played.launch()
    assert (early.command.speculative, early.command.known) == (True, "before")
    return played, first, early


def test_an_answer_that_was_computed_in_advance_is_used() -> None:
    played, first, early = speculating()
    assert played.end(early, answer=ANSWER, result={"question": QUESTION, "answer": ANSWER}) == []
    played.end(first, done(planned(), known="now"))
    paths = played.launch()
    assert (paths.command.answers, paths.command.known) == ((ANSWER,), "now")
    (task,) = played.end(paths, done(planned()))
    assert isinstance(task, ReportPaths)
    assert played.expected.entries_of(PATH) == {("f0", 0): Expected("fake", "now")}


@pytest.mark.parametrize("answers", [(ANSWER,), ()])
def test_paths_wait_for_the_answer_that_is_being_computed(
    answers: tuple[BranchAnswer, ...],
) -> None:
    played, first, early = speculating()
    played.end(first, done(planned(), known="now"))
    assert played.plan.next_task(0.0) is None
    answer = answers[0] if answers else None
    played.end(early, result={"question": QUESTION, "answer": answer})
    assert played.launch().command.answers == answers


@pytest.mark.parametrize("ended", ["without paths", "in another mode", "crashed"])
def test_a_speculation_that_is_not_needed_is_stopped(ended: str) -> None:
    played, first, early = speculating(mode="auto" if ended == "in another mode" else "fake")
    if ended == "without paths":
        tasks = played.end(first, done(planned()))
    elif ended == "in another mode":
        tasks = played.end(first, done(planned(), known="now"))
    else:
        tasks = played.end(first)
    assert tasks[1:] == [StopRun(early.command.number)]
    assert played.end(early, answer=ANSWER) == []
    if ended == "in another mode":
        assert played.launch().command.answers == ()
    else:
        assert played.is_over()
        assert not played.expected.entries_of(PATH)


def test_nothing_is_computed_in_advance_while_runs_wait() -> None:
    expected = ExpectedPaths()
    expected.add(PATH, ("f0", 0), Expected("fake", "before"))
    parts: tuple[Part, ...] = ("first", "paths")
    played = Played(planned(0), planned(1), expected=expected, jobs=2, parts=parts)
    first, other = played.launch(), played.launch()
    assert not other.command.speculative
    assert played.plan.next_task(0.0) is None
    played.end(other, done(planned(1)))
    assert played.launch().command.speculative
    played.end(first, done(planned()))


# -- targets that the traces of others include --------------------------------------------------


def body(target: int) -> Range:
    """The lines of a target's function: ten for each target."""
    return Range(Position(10 * target, 0), Position(10 * target + 9, 0))


def nested(target: int, *callers: int) -> PlannedRun:
    return planned(target, origin="synthesis", callers=callers, body_of_call=body(target))


def traced_lines(launch: Launch, *lines: int, status: Status = "traced") -> RunDone:
    """The end of a run that traced these lines."""
    places = [Range(Position(line, 0), Position(line, 5)) for line in lines]
    ended = done(launch.attempt.plan)
    coverage = Coverage.from_ranges(places, ())
    return replace(ended, report=replace(ended.report, status=status, coverage=coverage))


def test_a_target_within_the_trace_of_a_caller_is_not_traced_again() -> None:
    inner, called, outer = nested(0, 2), nested(1, 2), nested(2)
    played = Played(inner, called, outer, nested=False)
    first = played.launch()
    assert place_of(first) == (2, 0, "first")
    ended = traced_lines(first, 21, 15)
    report, within = played.end(first, ended)
    assert isinstance(report, ReportRun)
    assert within == ReportWithin(called, ended.report)
    # The trace has no line of the other target, which is therefore traced.
    assert play(played) == [(0, 0, "first")]


def test_all_targets_are_traced_if_the_trace_of_the_caller_fails() -> None:
    played = Played(nested(0, 1), nested(1), nested=False)
    first = played.launch()
    assert place_of(first) == (1, 0, "first")
    played.end(first, traced_lines(first, 11, 5, status="failed"))
    assert play(played) == [(0, 0, "first")]


def test_of_targets_that_mention_each_other_the_later_one_is_the_caller() -> None:
    played = Played(nested(0, 1, 2), nested(1, 0, 2), nested(2, 0, 1), nested=False)
    first = played.launch()
    assert place_of(first) == (2, 0, "first")
    tasks = played.end(first, traced_lines(first, 25, 14, 3))
    assert [type(task) for task in tasks] == [ReportRun, ReportWithin, ReportWithin]
    assert played.is_over()


def test_a_target_waits_for_its_callers_while_one_of_them_runs() -> None:
    played = Played(nested(0, 1, 2), nested(1), nested(2), nested=False, jobs=3)
    running = [played.launch(), played.launch()]
    assert [place_of(one)[0] for one in running] == [1, 2]
    assert played.plan.next_task(0.0) is None
    played.end(running[0], traced_lines(running[0], 11))
    assert played.plan.next_task(0.0) is None
    _, within = played.end(running[1], traced_lines(running[1], 21, 1))
    assert isinstance(within, ReportWithin) and within.plan.target == 0
