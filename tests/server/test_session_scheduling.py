"""When runs start, and that there is never more than one."""

from __future__ import annotations

import asyncio

import pytest

from fullgraph.session import scheduling
from fullgraph.session.scheduling import Schedule

from .loop_clock import passed


class Work:
    """Runs that end when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.willing = True
        self.schedule = Schedule(self.begin)

    def begin(self) -> None:
        self.begun += 1
        if self.willing:
            self.schedule.run_started(self)

    def cancel(self) -> None:
        self.cancelled += 1

    async def until_begun(self, times: int) -> None:
        await passed(scheduling.FIRST_DELAY)
        assert self.begun >= times


async def test_what_is_asked_for_starts_at_once() -> None:
    work = Work()
    work.schedule.request_now()
    await passed(0.0)
    assert work.begun == 1 and work.schedule.running


async def test_edits_in_a_row_make_one_run() -> None:
    work = Work()
    for _ in range(5):
        work.schedule.request_after_edit()
        assert work.begun == 0
        await asyncio.sleep(0)
    await work.until_begun(1)
    await passed(60.0)
    assert work.begun == 1


async def test_an_edit_ends_the_run_and_waits_for_its_end() -> None:
    work = Work()
    work.schedule.request_now()
    await passed(0.0)
    work.schedule.request_after_edit()
    assert work.cancelled == 1
    await passed(60.0)
    assert work.begun == 1
    work.schedule.run_ended(None)
    await passed(0.0)
    assert work.begun == 2


async def test_saving_does_not_wait_for_the_pause_of_an_edit() -> None:
    work = Work()
    work.schedule.request_after_edit()
    work.schedule.request_now()
    await passed(0.0)
    assert work.begun == 1
    await passed(60.0)
    assert work.begun == 1


async def test_nothing_to_do_is_no_run() -> None:
    work = Work()
    work.willing = False
    work.schedule.request_now()
    await passed(0.0)
    assert not work.schedule.running
    work.schedule.request_now()
    await passed(0.0)
    assert work.begun == 2


async def test_withdrawing_ends_what_runs_and_forgets_what_waits() -> None:
    work = Work()
    work.schedule.request_now()
    await passed(0.0)
    work.schedule.request_after_edit()
    work.schedule.withdraw()
    work.schedule.run_ended(None)
    await passed(60.0)
    assert work.begun == 1 and not work.schedule.pending


async def test_a_closed_schedule_starts_nothing() -> None:
    work = Work()
    work.schedule.request_after_edit()
    work.schedule.close()
    work.schedule.request_now()
    await passed(0.0)
    await passed(60.0)
    assert work.begun == 0


async def test_the_pause_follows_the_time_that_runs_take() -> None:
    schedule = Work().schedule
    assert schedule.delay == scheduling.FIRST_DELAY
    schedule.run_ended(2.0)
    assert schedule.delay == pytest.approx(0.5)
    for _ in range(5):
        schedule.run_ended(100.0)
    assert schedule.delay == scheduling.MOST_DELAY
    for _ in range(5):
        schedule.run_ended(0.01)
    assert schedule.delay == scheduling.LEAST_DELAY
    # A run that was ended says nothing of how long one takes.
    schedule.run_ended(None)
    assert schedule.delay == scheduling.LEAST_DELAY
