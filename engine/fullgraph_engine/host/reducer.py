"""A process without user code that minimizes a program, by executing smaller versions of it in
other processes."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import NoReturn

from ..protocol import Log
from ..repro.job import MinimizationJob, Surroundings
from . import sandbox, wire
from .permissions import Permissions
from .pipeline import ReproPipeline
from .process_backends import descriptors, limits
from .process_backends.branches import silence_output
from .process_backends.spawning import Spares
from .process_backends.trials import SpawnedTrialPool, TrialPool, perform_trial
from .wire import ReductionOrder, TrialOrder

_exit, _dirname = os._exit, os.path.dirname


def main(
    order: ReductionOrder,
    report: int,
    pipeline: ReproPipeline,
    user_path: list[str],
    permissions: Permissions,
    spares: Spares | None,
) -> NoReturn:
    """Minimize one of the programs in ``order``, send the result to ``report`` and exit.

    ``spares`` are interpreters started in advance, which execute the smaller versions where forks
    are unavailable; None with forks.
    """
    report = descriptors.move_to_end(report)
    number = order.request.request
    try:
        _minimize_program(order, report, pipeline, user_path, permissions, spares)
    except wire.ParentUnreachable:
        _exit(1)
    except BaseException:
        try:
            wire.write_message(report, Log(number, "engine", traceback.format_exc()))
        finally:
            _exit(1)
    _exit(0)


def try_candidate(
    order: TrialOrder,
    report: int,
    pipeline: ReproPipeline,
    user_path: list[str],
    permissions: Permissions,
) -> NoReturn:
    """Execute one of the smaller programs of a minimization in this interpreter, send the result to
    ``report``, and exit."""
    try:
        scratch, path, roots = order.scratch, order.path, order.roots
        box = enter_sandbox(scratch, path, roots, user_path, pipeline, permissions, order.memory)
        box.let_start(frozenset(order.start))
        perform_trial(order, descriptors.move_to_end(report))
    finally:
        _exit(1)


def enter_sandbox(
    scratch: str,
    path: str,
    roots: tuple[str, ...],
    user_path: list[str],
    pipeline: ReproPipeline,
    permissions: Permissions,
    memory: int,
) -> sandbox.Sandbox:
    """Apply the sandbox to this process, so that it may execute the programs of a minimization;
    return the sandbox.

    ``memory`` is in MiB.
    """
    silence_output()
    limits.reset_signals(lambda number, frame: None)
    sys.dont_write_bytecode = True
    own = [*roots, *([_dirname(path)] if path else [])]
    sys.path[:] = [*own, *(entry for entry in user_path if entry not in own)]
    os.environ.update(sandbox.sandbox_environment(scratch, permissions.allowed))
    # tempfile caches the temporary folder, and the process that forked this one may have used
    # another.
    tempfile.tempdir = scratch
    os.chdir(scratch)
    root = _dirname(scratch)
    box = sandbox.Sandbox(root, pipeline.pass_over, pipeline.disable_tracing, permissions)
    box.install(memory, programs=True)
    pipeline.audit_native_writes()
    pipeline.before_forks()
    return box


def _minimize_program(
    order: ReductionOrder,
    report: int,
    pipeline: ReproPipeline,
    user_path: list[str],
    permissions: Permissions,
    spares: Spares | None,
) -> None:
    request, analyze, scratch = order.request, order.request.analyze, order.scratch
    memory = analyze.limits.memory * max(analyze.jobs, 1)
    path, roots = analyze.path, analyze.roots
    box = enter_sandbox(scratch, path, roots, user_path, pipeline, permissions, memory)
    gc.freeze()
    started: frozenset[str] = frozenset()

    def forking(begins: bool) -> None:
        box.forking = begins

    def let_start(names: frozenset[str]) -> bool:
        nonlocal started
        started = names
        return box.let_start(names)

    def trial(work: str, text: str, seconds: float, memory: int) -> TrialOrder:
        start = tuple(started)
        return TrialOrder(work, text, seconds, memory, scratch, analyze.path, analyze.roots, start)

    def trials(work: Callable[[str], bytes], seconds: float, until: float) -> TrialPool:
        jobs, memory = max(analyze.jobs, 1), analyze.limits.memory
        if spares is None:
            return TrialPool(
                work, until, capacity=jobs, seconds=seconds, memory=memory, forking=forking
            )
        return SpawnedTrialPool(
            work,
            until,
            spares,
            scratch,
            trial,
            capacity=jobs,
            seconds=seconds,
            memory=memory,
            forking=forking,
        )

    if spares is not None:
        spares.forking(forking)
    job = MinimizationJob(request.request, order.packed, order.began, request.seconds)
    around = Surroundings(trials, forking, scratch, let_start, forks=spares is None)
    pipeline.minimize(job, around, lambda event: wire.write_message(report, event))
    if spares is not None:
        forking(True)
        spares.end()
