"""Trying something out in a fork."""

from __future__ import annotations

import os
import signal
import time

import pytest

from fullgraph_engine.host.process_backends.branches import Branches, BranchResult

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_it_answers_and_leaves_nothing() -> None:
    here: list[int] = []

    def work() -> list[int]:
        here.append(1)
        return here

    assert Branches()(work, 10) == BranchResult([1])
    assert here == []


def test_one_that_does_not_answer_says_how_it_ended() -> None:
    def exits() -> int:
        os._exit(3)

    def crashes() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    def raises() -> int:
        return 1 // int("0")

    def is_unspeakable() -> object:
        return lambda: 1

    lost = [Branches()(work, 10) for work in (raises, exits, crashes, is_unspeakable)]
    assert [answer.value for answer in lost] == [None] * 4
    assert not any(answer.late for answer in lost)
    assert lost[0].lost == "it raised ZeroDivisionError: integer division or modulo by zero"
    assert lost[1].lost == "it exited with status 3"
    assert lost[2].lost == "it crashed (Killed)"
    assert lost[3].lost


def test_one_that_does_not_end_is_ended() -> None:
    def works() -> None:
        while True:
            pass

    for work in (works, lambda: time.sleep(600)):
        answer = Branches()(work, 0.2)
        assert answer == BranchResult(lost="it did not end within 0.2 seconds", late=True)


def test_none_begins_behind_the_end_of_all() -> None:
    begun = Branches(until=time.monotonic())(lambda: 1, 10)
    assert begun == BranchResult(lost="it did not end within 10.0 seconds", late=True)
    assert Branches(until=time.monotonic() + 60)(lambda: 1, 10) == BranchResult(1)


def test_a_large_answer_comes_whole() -> None:
    assert len(Branches()(lambda: b"x" * 3_000_000, 30).value or b"") == 3_000_000


def test_it_asks_before_it_forks() -> None:
    asked: list[bool] = []
    assert Branches(asked.append)(lambda: list(asked), 10).value == [True, False]
    assert asked == [True, False]
