"""What the messages of an enclosing run's processes say of it, without a process."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from fullgraph_engine.host.enclosing_run import EnclosingRun
from fullgraph_engine.host.owned_process import ProcessEnd
from fullgraph_engine.host.process_backends import EnclosingProcess
from fullgraph_engine.host.supervision import WatchedProcess
from fullgraph_engine.host.wire import (
    CallersEnded,
    ChildExited,
    ChildForked,
    ForkFailed,
    SnapshotTaken,
    Upward,
)
from fullgraph_engine.protocol import UncalledTarget


def enclosing_run() -> tuple[EnclosingRun, list[Any], deque[ProcessEnd]]:
    """A run that its back end has started as the process 10, and what it passes on to that."""
    passed_on: list[Any] = []
    ends: deque[ProcessEnd] = deque()
    run = EnclosingRun(ends, 3, (7, False), nice=False)
    run.process = cast("EnclosingProcess", SimpleNamespace(handle_message=passed_on.append))
    run.watched = cast(
        "WatchedProcess", SimpleNamespace(pid=0, deadline=5.0, kill_at=1.0, cause=None)
    )
    run.set_pid(10)
    return run, passed_on, ends


def test_the_run_goes_on_in_a_fork_at_each_call() -> None:
    run, _, _ = enclosing_run()
    assert run.take_message(ChildForked(3, 11)) is None
    assert (run.first_pid, run.watched.pid, run.left) == (10, 11, 1)
    run.take_message(ChildForked(3, 12))
    run.set_pid(10)  # a late message about the first process
    assert (run.first_pid, run.watched.pid, run.left) == (10, 12, 2)


def test_it_is_complete_when_all_its_snapshots_are_known() -> None:
    run, _, _ = enclosing_run()
    taken = SnapshotTaken(0, 0)
    run.take_message(ChildForked(3, 11))
    run.take_message(ChildExited(3, 0))
    assert not run.is_complete
    assert run.watched.pid == 0
    assert run.take_message(taken) is taken
    assert run.is_complete


def test_the_end_of_the_callers_is_reported() -> None:
    run, _, _ = enclosing_run()
    ended = CallersEnded((UncalledTarget("f", "g did not call f.", may_use_real=False),))
    assert run.take_message(ended) is ended
    assert not run.is_complete  # until the process exits


def test_messages_about_the_runs_of_its_snapshots_are_passed_on() -> None:
    run, passed_on, _ = enclosing_run()
    messages: list[Upward] = [ChildForked(4, 20), ForkFailed(5, 12), ChildExited(4, 0)]
    assert [run.take_message(one) for one in messages] == [None, None, None]
    assert passed_on == messages
    assert (run.watched.pid, run.left, run.is_complete) == (10, 0, False)


def test_a_failed_start_is_its_end() -> None:
    run, _, ends = enclosing_run()
    run.handle_refusal(12)
    assert list(ends) == [ProcessEnd(run, None)]


def test_it_is_interrupted_once() -> None:
    run, _, _ = enclosing_run()
    assert not run.was_interrupted
    run.watched.cause = "timeout"
    assert run.was_interrupted
    run.stop_recording()
    assert not run.was_interrupted
    assert run.watched.deadline == float("inf")
