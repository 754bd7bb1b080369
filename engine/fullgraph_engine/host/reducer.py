"""A process without user code that makes a program smaller, by executing candidates in forks."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import NoReturn

from ..protocol import Log
from ..repro.surroundings import Job, Surroundings
from . import sandbox, wire
from .pipeline import Pipeline
from .process_backends import descriptors, limits
from .process_backends.branches import silence
from .process_backends.trials import Trials
from .wire import Reduction

_exit, _dirname = os._exit, os.path.dirname


def main(order: Reduction, report: int, pipeline: Pipeline, user_path: list[str]) -> NoReturn:
    """Never returns."""
    report = descriptors.raised(report)
    number = order.request.request
    try:
        _shrink(order, report, pipeline, user_path)
    except wire.Lost:
        _exit(1)
    except BaseException:
        try:
            wire.report(report, Log(number, "engine", traceback.format_exc()))
        finally:
            _exit(1)
    _exit(0)


def _shrink(order: Reduction, report: int, pipeline: Pipeline, user_path: list[str]) -> None:
    request, analyse = order.request, order.request.analyse
    silence()
    limits.reset_signals(lambda number, frame: None)
    sys.dont_write_bytecode = True
    own = [*analyse.roots, *([_dirname(analyse.path)] if analyse.path else [])]
    sys.path[:] = [*own, *(entry for entry in user_path if entry not in own)]
    os.environ.update(sandbox.environment(order.scratch))
    tempfile.tempdir = order.scratch  # found out once, maybe by the process that this one is of
    os.chdir(order.scratch)
    box = sandbox.Sandbox(_dirname(order.scratch), pipeline.pass_over, pipeline.untouched)
    box.install()
    pipeline.audit_native_writes()
    pipeline.before_forks()
    gc.freeze()

    def forking(begins: bool) -> None:
        box.forking = begins

    def trials(work: Callable[[str], bytes], seconds: float) -> Trials:
        return Trials(
            work,
            capacity=max(analyse.jobs, 1),
            seconds=seconds,
            memory=analyse.limits.memory,
            forking=forking,
        )

    job = Job(request.request, order.packed, order.began, request.seconds)
    around = Surroundings(trials, forking, order.scratch, box.let_start)
    pipeline.shrink(job, around, lambda event: wire.report(report, event))
