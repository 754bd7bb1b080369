"""A fake clock that shows the same times in every run, and advances at each reading.

Without it, code that prints or stores a time could not be compared. Code that reads the clock less
often sees different times, so that the change is noticed.
"""

from __future__ import annotations

import contextlib
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TICK = 2**-10
"""Seconds by which the fake clock advances per reading; a power of two, so that differences are
exact.
"""
_SECONDS = {
    "time": 1_700_000_000.0,
    "perf_counter": 1_000.0,
    "monotonic": 2_000.0,
    "process_time": 10.0,
    "thread_time": 20.0,
}
"""First reading of each fake clock, in seconds, by the name of the function in ``time``."""


@contextlib.contextmanager
def use_fake_clock(namespace: dict[str, Any]) -> Iterator[None]:
    """Replace the clocks in ``time`` and ``timeit`` by fake clocks inside the ``with`` block.

    Names in ``namespace`` (the globals of the user's module) that refer to a clock are replaced
    too.
    """
    readings = 0

    def make_clock(start: float) -> Callable[[], float]:
        def read_seconds() -> float:
            nonlocal readings
            readings += 1
            return start + readings * _TICK

        return read_seconds

    def make_nanosecond_clock(clock: Callable[[], float]) -> Callable[[], int]:
        return lambda: int(clock() * 1_000_000_000)

    stand_ins: dict[int, Any] = {}
    for name, start in _SECONDS.items():
        made = make_clock(start)
        stand_ins[id(getattr(time, name))] = made
        stand_ins[id(getattr(time, f"{name}_ns"))] = make_nanosecond_clock(made)
    with contextlib.ExitStack() as stack:
        for names in (vars(time), vars(timeit), namespace):
            stack.callback(names.update, _replace_by_id(names, stand_ins))
        yield


def _replace_by_id(names: dict[str, Any], stand_ins: Mapping[int, Any]) -> dict[str, Any]:
    """Replace values in the dictionary ``names`` whose ``id`` is a key of ``stand_ins``.

    Return the replaced names with their old values, so that the caller can restore them.
    """
    before = {name: value for name, value in names.items() if id(value) in stand_ins}
    names.update({name: stand_ins[id(value)] for name, value in before.items()})
    return before
