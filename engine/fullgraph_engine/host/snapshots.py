"""An enclosing run: a process that executes callers of targets to record the real inputs of each
target.

At each call of a target it leaves a snapshot: this process stops just before the call, while a fork
of it continues the callers. The snapshot forks the processes that trace the call, and forwards
commands to later snapshots, which descend from it. So later operations of the callers, or their
end, do not affect an earlier snapshot.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from ..protocol import GivenCall, UncalledTarget
from ..targets import deadline
from . import run, wire
from .pipeline import ModulePipeline, PipelineProbe, PipelineTarget
from .process_backends import descriptors, packets, processes
from .process_backends.channels import ProcessEnds
from .process_backends.fork_server import ForkServer
from .wire import CallersEnded, LaunchEnclosingRun, LaunchRun, PlannedRun, SnapshotTaken

_exit, _dup = os._exit, os.dup


class Snapshots:
    """The snapshots of one enclosing run, a process that executes callers of targets.

    A snapshot is a copy of the process that waits just before a call of a target, to be forked into
    runs that trace the call. ``forking`` is called with True before a fork and with False after it.
    """

    def __init__(
        self,
        command: LaunchEnclosingRun,
        ends: ProcessEnds,
        pipeline: ModulePipeline,
        forking: Callable[[bool], None],
    ) -> None:
        self._command, self._ends = command, ends
        self._pipeline, self._forking = pipeline, forking
        self._server: ForkServer | None = None

    def run_enclosing(
        self,
        runs: Sequence[tuple[PlannedRun, PipelineTarget, PipelineProbe]],
        namespace: dict[str, Any],
        text: str,
        *,
        tells: bool,
    ) -> tuple[LaunchRun, ProcessEnds]:
        """Execute the callers of the targets in ``runs``, and fork a waiting copy of the process
        (snapshot) at each call of a target.

        The function returns only in a process forked from a snapshot to trace its call, with the
        command to execute and the channels to the main process. ``runs`` has planned runs, each
        with its target and inputs. ``text`` is the file's source, ``namespace`` its globals.
        ``tells``: report the arguments of each call.
        """
        self._ends.raise_all()
        memory = self._command.memory
        run.settle_process(self._ends, lambda number, frame: None, memory, forks=True)
        wanted = [(target, probe) for _, target, probe in runs]
        fake, found = self._command.mode != "real", self._command.found
        try:
            at = self._pipeline.leave_snapshots(
                wanted, namespace, text, self.fork_snapshot, fake=fake, found=found
            )
        except wire.ParentUnreachable:
            raise
        except BaseException:
            # User code may raise anything; separate runs without snapshots will report the
            # exception.
            at = ()
        taken = [planned for planned, target, _ in runs if at == (target, planned.probe)]
        if self._server is None:
            uncalled = tuple(one for one in at if isinstance(one, UncalledTarget))
            wire.write_message(self._ends.report, CallersEnded(uncalled))
        call: tuple[GivenCall | None, str] = None, ""
        if taken and tells:
            with contextlib.suppress(Exception):
                # Computing the digest runs code of the user's objects.
                call = self._pipeline.given_call(namespace)
        return self.serve_runs(taken[0] if taken else None, *call)

    def fork_snapshot(self) -> bool:
        """Fork this process just before a call of a target, so that one of the two processes (the
        snapshot) waits there.

        Return True in the snapshot, and False in the process that continues the callers. Also
        return False, without a fork, if the process has several threads or lacks descriptors.
        """
        if processes.count_threads() > 1:
            return False
        ends = self._ends
        try:
            onward, control = packets.control_pair()
            fresh = ProcessEnds(_dup(ends.report), -1, -1, -1, control)
        except OSError:
            return False
        server = ForkServer(ends.control, ends.report, self._forking)
        server.onward = onward
        numbers = random.getstate()
        try:
            with deadline.pause_deadlines():
                goes_on = server.fork(self._command, fresh)
        except OSError:  # the system lacks resources for another process
            _exit(1)
        if goes_on:
            random.setstate(numbers)  # forking changes the seed of Python's random numbers
            fresh.raise_all()
            self._ends = fresh
            return False
        self._server = server
        return True

    def serve_runs(
        self, taken: PlannedRun | None, call: GivenCall | None, source: str
    ) -> tuple[LaunchRun, ProcessEnds]:
        """Wait at a call of a target, in a copy of the process (snapshot), and fork a run for each
        command that arrives.

        ``taken`` is the planned run of the call, or None; ``call`` is a digest of its arguments,
        and ``source`` describes it. The function returns only in a forked process, with the command
        and the channels of that process. The waiting copy ends with the engine's main process.
        """
        server = self._server
        if server is None:
            _exit(0)  # the enclosing run has finished
        descriptors.flush_streams()
        at = (taken.target, taken.probe) if taken is not None else (-1, -1)
        wire.write_message(self._ends.report, SnapshotTaken(*at, call, source))

        def is_own(command: Any) -> bool:
            return (command.target, command.probe) == at

        server.is_own = is_own
        command, ends = server.wait()
        assert isinstance(command, LaunchRun)
        return command, ends
