"""Trying something out in a fork."""

from __future__ import annotations

import os
import time

import pytest

from fullgraph_engine.host.branches import Branches

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_it_answers_and_leaves_nothing() -> None:
    here: list[int] = []

    def work() -> list[int]:
        here.append(1)
        return here

    assert Branches()(work, 10) == [1]
    assert here == []


def test_one_that_raises_or_ends_gives_nothing() -> None:
    def ends() -> int:
        os._exit(3)

    assert Branches()(lambda: 1 // 0, 10) is None
    assert Branches()(ends, 10) is None


def test_one_that_does_not_end_is_ended() -> None:
    assert Branches()(lambda: time.sleep(600), 0.2) is None


def test_a_large_answer_comes_whole() -> None:
    assert len(Branches()(lambda: b"x" * 3_000_000, 30) or b"") == 3_000_000


def test_it_asks_before_it_forks() -> None:
    asked: list[bool] = []
    assert Branches(asked.append)(lambda: list(asked), 10) == [True, False]
    assert asked == [True, False]
