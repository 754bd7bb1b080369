"""An enclosing run, which leaves a snapshot of itself at each call that others are traced for.

A snapshot is a process that stays as the run was then: the run goes on in a fork. It forks the runs
of its call, and passes on what is for snapshots that were taken later, each of which was forked off
the one before it. So nothing that the run does later, or that ends it, touches an earlier snapshot.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from ..protocol import GivenCall
from ..targets import deadline
from . import run, wire
from .pipeline import Pipeline, Probe, Target
from .process_backends import descriptors, packets, processes
from .process_backends.channels import ProcessEnds
from .process_backends.fork_server import ForkServer
from .wire import Enclose, Launch, PlannedRun, SnapshotTaken

_exit, _dup = os._exit, os.dup


class Snapshots:
    """Those of one enclosing run, in its process. ``forking`` is as a fork server has it."""

    def __init__(
        self,
        command: Enclose,
        given: ProcessEnds,
        pipeline: Pipeline,
        forking: Callable[[bool], None],
    ) -> None:
        self._command, self._given = command, given
        self._pipeline, self._forking = pipeline, forking
        self._server: ForkServer | None = None

    def run(
        self,
        runs: Sequence[tuple[PlannedRun, Target, Probe]],
        namespace: dict[str, Any],
        text: str,
        *,
        tells: bool,
    ) -> tuple[Launch, ProcessEnds]:
        """Run what encloses these. Returns in a run that a snapshot has forked. ``tells``: what the
        calls are made with is told."""
        self._given.raise_all()
        memory = self._command.memory
        run.settle(self._given, lambda number, frame: None, memory, forks=True)
        wanted = [(target, probe) for _, target, probe in runs]
        fake, found = self._command.mode != "real", self._command.found
        try:
            at = self._pipeline.leave_snapshots(
                wanted, namespace, text, self.stay, fake=fake, found=found
            )
        except wire.Lost:
            raise
        except BaseException:  # the user's code may raise anything; runs without snapshots tell it
            at = None
        taken = [planned for planned, target, _ in runs if at == (target, planned.probe)]
        call: tuple[GivenCall | None, str] = None, ""
        if taken and tells:
            with contextlib.suppress(Exception):  # it looks into objects of the user
                call = self._pipeline.given_call(namespace)
        return self.serve(taken[0] if taken else None, *call)

    def stay(self) -> bool:
        """Fork: True in the process that stays, False in the one that goes on, and in one that
        cannot be forked without harm."""
        if processes.threads() > 1:
            return False
        given = self._given
        try:
            onward, control = packets.pair()
            fresh = ProcessEnds(_dup(given.report), -1, -1, -1, control)
        except OSError:
            return False
        server = ForkServer(given.control, given.report, self._forking)
        server.onward = onward
        numbers = random.getstate()
        try:
            with deadline.pause_deadlines():
                goes_on = server.fork(self._command, fresh)
        except OSError:  # there is no room for another process
            _exit(1)
        if goes_on:
            random.setstate(numbers)  # Python seeds it anew in a fork
            fresh.raise_all()
            self._given = fresh
            return False
        self._server = server
        return True

    def serve(
        self, taken: PlannedRun | None, call: GivenCall | None, source: str
    ) -> tuple[Launch, ProcessEnds]:
        """Fork the runs of a snapshot, or of none, to the end; returns in a run."""
        server = self._server
        if server is None:
            _exit(0)  # the run has come to its end
        descriptors.flush()
        at = (taken.target, taken.probe) if taken is not None else (-1, -1)
        wire.report(self._given.report, SnapshotTaken(*at, call, source))

        def is_own(command: Any) -> bool:
            return (command.target, command.probe) == at

        server.is_own = is_own
        command, given = server.wait()
        assert isinstance(command, Launch)
        return command, given
