"""Decide which run of an analysis is launched next, and what the end of a run means.

A run is a process that traces one target (a function or module class of the user's file) with one
set of inputs. The plan is plain data: it starts no process and reads no clock. It receives the
outcome of each task and returns the next tasks, which ``analysis`` performs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .. import devices, texts
from ..protocol import (
    Analyze,
    FoundProbe,
    GivenCalls,
    Mode,
    Part,
    Range,
    TargetReport,
    UncalledTarget,
)
from . import syntax
from .attempts import ADDING, OBSERVING, Attempt, RunEnd, RunResult
from .found import FoundProbes
from .speculation import ExpectedPaths, Speculations
from .tasks import (
    EnclosingKey,
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
from .wire import (
    BranchAnswer,
    CallersEnded,
    LaunchEnclosingRun,
    LaunchRun,
    PlannedRun,
    RunDone,
    SnapshotTaken,
)


@dataclass
class _Calls:
    """The calls of targets recorded by one enclosing run, a process that executes the code that
    calls several targets."""

    taken: dict[tuple[int, int], SnapshotTaken] = field(default_factory=dict)
    """Recorded calls, by number of the target and number of the call. At each call, a forked copy
    of the process (snapshot) waits."""
    uncalled: dict[str, UncalledTarget] = field(default_factory=dict)
    """Targets that were not called, by name, once the callers were executed to their end."""
    over: bool = False
    """True if no more calls will be recorded."""
    further: set[int] = field(default_factory=set)
    """Numbers of the targets for which every recorded call is traced. For other targets, only the
    first recorded call is traced."""


class _PartTimes:
    """The time budgets that all runs of an analysis share: one for recompile forecasts, one for
    alternative execution paths."""

    def __init__(self, request: Analyze) -> None:
        self._limits = {"forecast": request.forecast_seconds, "paths": request.path_seconds}
        self._ends: dict[Part, float] = {}
        """Time by which all runs for a purpose, such as forecasts, must have ended. Set when the
        first of them is launched."""

    def limit(self, part: Part) -> float:
        """Return the total seconds for all runs for a purpose (part), such as forecasts; 0 without
        a limit."""
        return self._limits.get(part, 0.0)

    def seconds_left(self, part: Part, now: float) -> float:
        """Return the seconds that remain for all runs for a purpose (part), such as forecasts;
        infinite without a limit."""
        most = self.limit(part)
        return self._ends.setdefault(part, now + most) - now if most else float("inf")


class RunPlan:
    """The order in which an analysis launches its runs (processes that each trace a target, a
    function or module class of the file).

    ``next_task`` returns the task to perform next. The other methods receive outcomes and return
    tasks that report results to the server. ``found`` (inputs that earlier searches found) and
    ``expected`` (targets known to have several execution paths) are caches of earlier analyses,
    which the plan updates. ``until`` is the time at which every run must have ended, on the clock
    of the ``now`` arguments.
    """

    def __init__(
        self,
        request: Analyze,
        found: FoundProbes,
        expected: ExpectedPaths,
        until: float = float("inf"),
    ) -> None:
        self._request, self._found, self._until = request, found, until
        self._lines = request.focus, request.focus
        """First and last line of the text that the user looks at: the last edit, until the server
        reports other lines."""
        self.planned = False
        """True if the process that executes the user's file has reported the runs that can be
        launched."""
        self._began: float | None = None
        """Time at which the first task was requested; None before it."""
        self._waited = 0.0
        """Total waiting time in seconds for a processor, of the processes of ended runs."""
        self._touched: set[int] = set()
        """Numbers of the targets for which at least one run was launched."""
        self._number = 0
        self._pending: list[Attempt] = []
        self._running: dict[int, Launch] = {}
        self._waiting: dict[int, list[PlannedRun]] = {}
        """Planned runs, by target number, which start only after an earlier run of the same target
        requests them."""
        self._callers: dict[int, frozenset[int]] = {}
        """Numbers of the targets whose traces may include a target, by the target's number."""
        self._settled: dict[int, str] = {}
        """Names of the targets whose first run has ended, by target number."""
        self._given_up: dict[tuple[int, int], RunResult] = {}
        """Results that were not reported because the run is repeated with the other kind of tensors
        (real instead of fake, or fake instead of real), by target number and number of its inputs.
        """
        self._firsts: dict[tuple[int, int], RunResult] = {}
        """Results of successful first runs, by target number and number of its inputs. They are
        reported again once alternative execution paths were traced, or graphs were compiled."""
        self._times = _PartTimes(request)
        self._enclosing: dict[EnclosingKey, _Calls | None] = {}
        """Calls recorded by each enclosing run (a run of code that calls targets); None if its
        process could not be started."""
        self._given = {one.target: one for one in request.given}
        """Targets whose code did not change since an earlier analysis, by name, with the calls
        recorded then. They are traced again only if their callers now pass other arguments."""
        self._speculations = Speculations(request.path, expected, found)

    @property
    def waiting(self) -> int:
        """Number of runs that were planned but not yet launched."""
        return len(self._pending)

    # -- the module process -------------------------------------------------------------------

    def add_runs(self, runs: Iterable[PlannedRun]) -> None:
        """Add the runs that the module process (which executes the user's file) reported, nearest
        to the last edit first."""
        self.planned = True
        parts, observe = self._request.parts, self._request.observe
        nearest = sorted(runs, key=lambda planned: syntax.line_distance(planned.body, *self._lines))
        last = observe.last_probe if observe is not None else -1
        self._callers = _callers_by_target(nearest)
        waiting = [one for one in nearest if one.waits and one.probe > last]
        needed = [one for one in nearest if not one.waits or one.probe <= last]
        for planned in waiting:
            self._waiting.setdefault(planned.target, []).append(planned)
        self._queue(needed)
        if {"first", "paths"} <= set(parts):
            self._speculations.add_runs(needed)
        if "candidates" in parts:
            # Queue the waiting inputs too: any of the target's runs may show the requested finding.
            self._queue([planned for planned in nearest if planned.waits])

    def prioritize(self, first: int, last: int) -> None:
        """Launch first the runs of the targets nearest to the zero-based lines ``first`` to
        ``last``.

        The order of the kinds of runs (first trace, alternative paths, forecast) does not change.
        """
        self._lines = first, last
        parts = self._request.parts
        self._pending.sort(
            key=lambda attempt: (
                parts.index(attempt.part),
                syntax.line_distance(attempt.plan.body, *self._lines),
            )
        )

    def restart(self) -> None:
        """Discard the results of all runs, because a new process executes the user's file again."""
        self.planned = False
        for states in (self._running, self._settled, self._waiting, self._enclosing):
            states.clear()
        self._touched.clear()
        for results in (self._given_up, self._firsts):
            results.clear()
        self._pending.clear()
        self._speculations.clear()

    def lose_runs(self, cause: str) -> list[Task]:
        """Return tasks that report each run not yet launched as crashed.

        ``cause`` is a clause for the user that says why the process that executed the file ended.
        """
        lost, self._pending = self._pending, []
        return [
            self._report_unstarted(
                one, texts.capitalize_first(cause), cause if one.part == "first" else ""
            )
            for one in lost
        ]

    def _report_unstarted(self, attempt: Attempt, error: str, lost: str = "") -> Task:
        """Return the task that reports a run that never began, because of ``error``.

        With ``lost``, an additional finding says that the target could not be traced; ``lost`` is
        its reason.
        """
        if attempt.part == "backend":
            return ReportMissingCompilation(self._firsts[attempt.plan.at], attempt, error)
        return ReportUnstarted(attempt, error, lost)

    def _queue(self, runs: Iterable[PlannedRun]) -> None:
        parts = self._request.parts
        self._pending += [
            Attempt(planned, _first_mode(self._request, planned, part), part)
            for part in parts
            # Runs for these purposes are planned only after the first run.
            if part not in ("paths", "backend")
            for planned in runs
        ]
        self._pending.sort(key=lambda attempt: parts.index(attempt.part))

    # -- the next task ------------------------------------------------------------------------

    def next_task(self, now: float) -> Task | None:
        """Return the task to perform at time ``now``; None if all remaining tasks must wait for a
        running process."""
        skipped = self._skip_late_target(now)
        if skipped is not None:
            return skipped
        if self._pending:
            if len(self._running) >= max(1, self._request.jobs):
                return None
            chosen = self._choose_pending()
            return self._launch(chosen, now) if isinstance(chosen, Attempt) else chosen
        if len(self._running) < self._request.jobs:
            running = [one.attempt for one in self._running.values()]
            firsts = {one.plan.at for one in running if one.part == "first"}
            attempt = self._speculations.next_attempt(firsts)
            if attempt is not None:
                return self._launch(attempt, now)
        more = any(self._waits_for_calls(calls) for calls in self._enclosing.values())
        return Finish() if self.planned and not self._running and not more else None

    def _skip_late_target(self, now: float) -> ReportSkipped | None:
        """Return a task that reports a target as skipped, once the time limit for the whole file is
        over.

        Return None before that, or if every target was started.
        """
        if self._began is None:
            self._began = now
        limits, most = self._request.limits, self._request.limits.file_seconds
        waited = min(self._waited / max(1, self._request.jobs), most * (limits.stretch - 1))
        if not most or self._request.only or now - self._began < most + waited:
            return None
        late = next((one.plan for one in self._pending if self._is_untouched(one)), None)
        if late is None:
            return None
        self._drop_runs(late)
        return ReportSkipped(late)

    def _drop_runs(self, plan: PlannedRun) -> None:
        """Drop all runs of the target of ``plan`` that were not launched, and count the target as
        ended."""
        self._pending = [one for one in self._pending if one.plan.target != plan.target]
        self._waiting.pop(plan.target, None)
        self._settled[plan.target] = plan.info.name

    def _is_untouched(self, attempt: Attempt) -> bool:
        """Whether the target of this attempt has not been traced yet, by any run."""
        target = attempt.plan.target
        is_new = target not in self._touched and target not in self._settled
        return attempt.part == "first" and is_new

    def _choose_pending(self) -> Attempt | LaunchEnclosing | None:
        """Return the run to launch next; None if all must wait for a running one.

        If the run needs inputs recorded by an enclosing run (a run of its callers), return the task
        to launch that run first. A search for inputs runs once per target, so the target's other
        runs wait for its result.
        """
        firsts = "first" in self._request.parts
        for attempt in self._pending:
            before = {*attempt.plan.after, *self._callers.get(attempt.plan.target, ())}
            tried = attempt.plan.probe_info.origin in ("synthesis", "harvest")
            if firsts and tried and attempt.part != "first":
                before.add(attempt.plan.target)
            if before <= self._settled.keys():
                blocking = self._find_blocking(attempt)
                if isinstance(blocking, LaunchEnclosing):
                    return blocking
                if blocking is None:
                    return attempt
        recording = any(calls is not None and not calls.over for calls in self._enclosing.values())
        return None if self._running or recording else self._pending[0]

    def _find_blocking(self, attempt: Attempt) -> LaunchEnclosing | _Calls | None:
        """Return an obstacle that delays the launch of a run; None if it can be launched now.

        A run may need a call recorded by an enclosing run (a run of the target's callers). The
        obstacle is the task to launch the enclosing run, or the calls that it has recorded so far,
        if it may still record the needed call. Enclosing runs do not count toward the limit of
        concurrent runs, so they do not delay other runs.
        """
        plan = attempt.plan
        given = self._given.get(plan.info.name)
        if given is not None:
            # Wait until all calls of the target are recorded: if their arguments are unchanged, it
            # is not traced.
            calls = self._find_calls(plan, real=given.real)
            if isinstance(calls, LaunchEnclosing) or (calls is not None and not calls.over):
                return calls
        calls = self._find_calls(plan, real=attempt.mode == "real")
        if isinstance(calls, _Calls) and (calls.over or plan.at in calls.taken):
            return None
        return calls

    def _find_calls(self, plan: PlannedRun, *, real: bool) -> LaunchEnclosing | _Calls | None:
        """Return the recorded calls that a planned run needs. An enclosing run (a run of the
        target's callers) records them.

        If the enclosing run was not launched yet, return the task that launches it. If the planned
        run does not need recorded calls, return None. ``real`` selects the enclosing run with real
        tensors.
        """
        if plan.shared is None:
            return None
        key = plan.shared, real
        if key in self._enclosing:
            return self._enclosing[key]
        self._number += 1
        self._enclosing[key] = _Calls()
        limits = self._request.limits
        command = LaunchEnclosingRun(
            self._number,
            plan.shared,
            "real" if real else "fake",
            limits.seconds,
            limits.memory,
            self._found_probes(),
        )
        return LaunchEnclosing(command, key)

    def _launch(self, attempt: Attempt, now: float) -> Task:
        """Return the task to launch a run, or to report it as skipped if no time is left for runs
        with its purpose."""
        plan, limits = attempt.plan, self._request.limits
        real = attempt.mode == "real"
        calls = self._find_calls(plan, real=real)
        if isinstance(calls, LaunchEnclosing):
            return calls
        snapshot = calls.taken.get(plan.at) if calls is not None else None
        most = self._request.compiler_seconds if attempt.part == "backend" else limits.seconds
        seconds, last = min(most, max(self._until - now, 0.0)), False
        found = self._found_probes()
        if attempt.speculative:
            found = tuple(replace(one, settled=True) for one in found)
            self._speculations.begin(attempt)
        else:
            self._pending.remove(attempt)
            left = self._times.seconds_left(attempt.part, now)
            last = left <= 0 and bool(attempt.answers)
            seconds = seconds if last else min(seconds, left)
            if left <= 0 and not last:
                return self._skip(attempt)
        self._number += 1
        command = LaunchRun(
            self._number,
            plan.target,
            plan.probe,
            attempt.mode,
            attempt.part,
            seconds,
            limits.memory,
            attempt.answers,
            last,
            found=found,
            uncalled=calls.uncalled.get(plan.info.name) if calls is not None else None,
            known=attempt.known,
            began=now,
            speculative=attempt.speculative,
        )
        self._touched.add(plan.target)
        launch = Launch(command, attempt)
        if snapshot is not None and plan.shared is not None:
            launch = Launch(command, attempt, (plan.shared, real), snapshot.call)
        self._running[self._number] = launch
        return launch

    def _skip(self, attempt: Attempt) -> Task:
        """Return the task that reports a run as skipped, because the time for all runs with its
        purpose is used up."""
        reason = (
            "the file's time limit for runs of this kind, "
            f"{self._times.limit(attempt.part):g} seconds, was reached"
        )
        if attempt.part == "forecast":
            return ReportMissingForecast(attempt.plan, f"Not tried: {reason}.")
        return ReportMissingPaths(self._firsts[attempt.plan.at], "late", reason)

    def _found_probes(self) -> tuple[FoundProbe, ...]:
        """Return the example inputs that searches have found for targets of this file or of its
        earlier versions."""
        found = self._found.entries_of(self._request.path).values()
        if "first" not in self._request.parts:
            return tuple(replace(one, settled=True) for one in found)
        names = self._settled.values()
        return tuple(replace(one, settled=one.target in names) for one in found)

    # -- the outcome of a launch --------------------------------------------------------------

    def put_back(self, number: int) -> None:
        """Put run ``number`` back into the queue, because its process could not be started for
        now."""
        attempt = self._running.pop(number).attempt
        if attempt.speculative:
            self._end_speculation(attempt, None)
        else:
            self._pending.insert(0, attempt)

    def refuse_run(self, number: int, error: str) -> list[Task]:
        """Return the tasks that report run ``number`` as failed, because its process could not be
        started.

        ``error`` is a clause for the user.
        """
        attempt = self._running.pop(number).attempt
        if attempt.speculative:
            self._end_speculation(attempt, None)
            return []
        return [
            self._report_unstarted(
                attempt, f"No process could be started to trace the target: {error}"
            )
        ]

    def refuse_enclosing(self, key: EnclosingKey) -> None:
        """Record that the enclosing run ``key`` (a run of callers that records inputs) could not be
        started.

        Its targets are then traced in separate runs.
        """
        self._enclosing[key] = None

    # -- enclosing runs -----------------------------------------------------------------------

    def add_snapshot(self, key: EnclosingKey, snapshot: SnapshotTaken) -> None:
        """Record that an enclosing run (a run of code that calls targets) reached a call of a
        target.

        ``snapshot`` identifies a forked copy of that process, stopped just before the call. Runs
        that trace the call are forked from it.
        """
        calls = self._enclosing.get(key)
        if calls is not None and snapshot.target >= 0 and not calls.over:
            calls.taken[snapshot.target, snapshot.probe] = snapshot
            self._queue_recorded(calls)

    def add_uncalled(self, key: EnclosingKey, message: CallersEnded) -> None:
        """Record the targets that an enclosing run (a run of code that calls targets) did not call,
        so that their own runs do not execute that code again."""
        calls = self._enclosing.get(key)
        if calls is not None:
            calls.uncalled.update({one.target: one for one in message.uncalled})

    def end_enclosing(self, key: EnclosingKey, *, lost: bool = False) -> list[Task]:
        """Record that an enclosing run (a run of code that calls targets) will record no more
        calls.

        Runs that waited for one of its calls become ready to launch without it. ``lost``: the
        process died together with its snapshots, so runs can no longer be forked from the calls
        recorded so far. Return reports for the server.
        """
        calls = self._enclosing.get(key)
        if calls is None:
            return []
        calls.over = True
        if lost:
            calls.taken.clear()
        tasks: list[Task] = []
        for plan in {one.plan.target: one.plan for one in self._pending}.values():
            given = self._given.get(plan.info.name)
            if given is not None and key == (plan.shared, given.real):
                del self._given[given.target]
                tasks += self._compare_calls(calls, plan, given)
        return tasks

    def _compare_calls(self, calls: _Calls, plan: PlannedRun, given: GivenCalls) -> list[Task]:
        """Drop a target's runs if its callers pass the same arguments as in an earlier analysis.

        ``calls`` are the calls recorded now; ``given`` has the earlier ones. Return the task that
        reports the target as unchanged; empty if the arguments differ or are not all known yet.
        """
        target = plan.target
        taken = {probe: made for (of, probe), made in sorted(calls.taken.items()) if of == target}
        if {probe: made.call for probe, made in taken.items()} != dict(enumerate(given.calls)):
            return []
        self._drop_runs(plan)
        # If the file does not call the target, use the source text of the target's planned inputs.
        usual = plan.probe_info.source
        return [ReportEqualCalls(plan, tuple(made.source or usual for made in taken.values()))]

    def _queue_recorded(self, calls: _Calls) -> None:
        """Plan one run for each recorded call of the targets in ``calls.further``, for which every
        call is traced."""
        for target in calls.further:
            waiting = self._waiting.get(target, [])
            ready = [planned for planned in waiting if planned.at in calls.taken]
            if ready:
                self._waiting[target] = [planned for planned in waiting if planned not in ready]
                self._queue(ready)

    def _waits_for_calls(self, calls: _Calls | None) -> bool:
        """Whether an enclosing run (a run of code that calls targets) may still record calls that
        must be traced."""
        if calls is None or calls.over:
            return False
        return any(self._waiting.get(target) for target in calls.further)

    # -- the end of a run ---------------------------------------------------------------------

    def end_run(self, end: RunEnd) -> list[Task]:
        """Handle the end of a run's process; return the tasks that report its result.

        Return an empty list if the run is repeated, for example with real tensors, and reported
        later.
        """
        launch = self._running.pop(end.number)
        self._waited += end.waited
        attempt, done = launch.attempt, end.result.done
        if attempt.speculative:
            self._end_speculation(attempt, end.result.answer)
            return []
        if end.answer is not None:
            answers = (*attempt.answers, end.answer)
            self._pending.insert(0, replace(attempt, answers=answers))
            return []
        if done is None and end.killed and not attempt.again:
            self._pending.insert(0, replace(attempt, again=True))
            return []
        mode = _mode_after(self._request, attempt, done) if done is not None else None
        if mode is not None:
            if attempt.part == "first":
                self._given_up[attempt.plan.at] = end.result
                if done is not None and mode == "real":
                    self._remember_search(done)
            self._pending.insert(0, Attempt(attempt.plan, mode, attempt.part, known=attempt.known))
            return []
        if attempt.makes_report:
            self._settled[attempt.plan.target] = attempt.plan.info.name
        if attempt.part in ("first", "candidates"):
            return self._end_trace(launch, end)
        if attempt.part in OBSERVING:
            if done is None:
                return [ReportUnstarted(attempt, end.reason)]
            return [ReportObservation(end.result)]
        if attempt.part == "paths":
            first = self._firsts[attempt.plan.at]
            if done is not None and done.report.status == "traced":
                return [ReportPaths(first, done)]
            return [ReportMissingPaths(first, "late" if end.late else "failed", end.reason)]
        if attempt.part == "backend":
            first = self._firsts[attempt.plan.at]
            if done is None or done.report.compilation is None:
                return [ReportMissingCompilation(first, attempt, end.reason)]
            return [ReportCompilation(first, done.report.compilation)]
        if attempt.part == "forecast" and not end.result.forecast_sent:
            return [
                ReportMissingForecast(
                    attempt.plan, f"The forecast of recompiles was stopped: {end.reason}."
                )
            ]
        if attempt.part in ADDING and done is None:
            return [ReportLostRun(attempt)]
        return []  # the run has reported its findings, so its exit status does not matter

    def _end_trace(self, launch: Launch, end: RunEnd) -> list[Task]:
        """Return the tasks that report a target's first trace, and plan the runs that depend on it,
        such as the forecast of recompiles."""
        attempt, done = launch.attempt, end.result.done
        plan, is_first = attempt.plan, attempt.part == "first"
        before = self._given_up.get(plan.at)
        tasks: list[Task] = [ReportRun(end, before)]
        if done is not None:
            self._remember_search(done)
            if is_first and done.further:
                self._queue(self._waiting.pop(plan.target, [])[: done.further])
            calls = self._enclosing.get(launch.enclosing) if launch.enclosing else None
            called = done.needs_real is None and done.report.status != "no-probe"
            if is_first and calls is not None and called:
                calls.further.add(plan.target)
                self._queue_recorded(calls)
            self._firsts[plan.at] = end.result
            tasks += self._end_traced_within(plan.target, done.report)
            # If fake tensors raised an exception, use real ones in later runs. Otherwise use the
            # requested mode; in fake mode the engine chooses values that the code reads.
            raised = before is not None and before.done is not None and before.done.raised
            mode: Mode = "fake" if attempt.mode == "fake" else self._request.mode
            mode = "real" if raised else mode
            if is_first and done.report.status == "traced" and "backend" in self._request.parts:
                self._pending.append(Attempt(plan, mode, "backend"))
            if done.known and "paths" in self._request.parts:
                return tasks + self._plan_paths(Attempt(plan, mode, "paths", known=done.known))
        if is_first:
            self._speculations.forget(attempt)
            tasks += self._stop_speculation(attempt)
        return tasks

    def _end_traced_within(self, caller: int, report: TargetReport) -> list[Task]:
        """Drop the runs of the targets whose calls the trace of a caller includes; return the tasks
        that report them.

        ``caller`` is the number of the caller, ``report`` the result of its trace.
        """
        if report.status != "traced" or report.coverage is None:
            return []
        traced = report.coverage.traced
        tasks: list[Task] = []
        for plan in {one.plan.target: one.plan for one in self._pending}.values():
            body = plan.body_of_call
            if body is None or plan.target in self._touched:
                continue
            if caller in self._callers.get(plan.target, ()) and _is_any_within(traced, body):
                self._drop_runs(plan)
                tasks.append(ReportWithin(plan, report))
        return tasks

    def _remember_search(self, done: RunDone) -> None:
        """Store the inputs that a run found by search, or that it found none, for later runs and
        for the next version of the file."""
        report, path = done.report, self._request.path
        probe = report.probe
        if report.status == "no-probe":
            self._pending = [one for one in self._pending if one.plan.info.name != report.name]
            if self._request.tentative:
                return
            self._found.forget(path, report.name)
            if done.unfound is not None:
                self._found.add(path, done.unfound.target, done.unfound)
        elif probe is not None and probe.origin == "synthesis" and probe.comment:
            self._found.add(
                path, report.name, FoundProbe(report.name, probe.comment, shortened=probe.shortened)
            )
        elif report.status == "traced":
            # The text calls the target, so a search is unnecessary.
            self._found.forget(path, report.name)

    # -- further execution paths --------------------------------------------------------------

    def _plan_paths(self, attempt: Attempt) -> list[Task]:
        """Plan the run that traces a target's alternative execution paths after its first run
        ``attempt``.

        A speculative run may have been started early, on an idle processor. If it used the same
        inputs and kind of tensors, its answer is reused. Otherwise return the task that stops it.
        """
        self._speculations.remember(attempt)
        tasks = self._stop_speculation(attempt) if self._speculations.differs(attempt) else []
        ready = self._speculations.add_answer(attempt)
        if ready is not None:
            self._pending.append(ready)
        return tasks

    def _end_speculation(self, attempt: Attempt, answer: BranchAnswer | None) -> None:
        waiting = self._speculations.end(attempt, answer)
        if waiting is not None:
            self._pending.insert(0, waiting)

    def _stop_speculation(self, attempt: Attempt) -> list[Task]:
        """Return the task that kills the speculative run (started early on an idle processor) of
        this target and these inputs; empty if none is running."""
        self._speculations.remove(attempt)
        return [
            StopRun(number)
            for number, launch in self._running.items()
            if launch.attempt.speculative and launch.attempt.plan.at == attempt.plan.at
        ]


def _first_mode(request: Analyze, planned: PlannedRun, part: Part) -> Mode:
    """Return the mode of a planned run's first attempt: "fake" or "real" tensors, or "auto" (fake
    tensors, then real ones if the code needs values)."""
    if part == "second":
        # In the first run, fake tensors already got example values for unknown sizes. Real values
        # would not add constraints on dimensions.
        return "real" if request.mode == "real" else "fake"
    needs_real = request.mode == "auto" and planned.info.name in request.real
    return "real" if needs_real else request.mode


def _callers_by_target(runs: Iterable[PlannedRun]) -> dict[int, frozenset[int]]:
    """Return the numbers of the targets whose traces may include a target, by its number.

    Of two targets that mention each other, only the later one in the file counts as the caller:
    files usually define the parts of a model before the model.
    """
    callers = {one.target: one.callers for one in runs}
    return {
        target: frozenset(
            one for one in others if one in callers and (one > target or target not in callers[one])
        )
        for target, others in callers.items()
    }


def _is_any_within(lines: Iterable[int], place: Range) -> bool:
    """Whether any of the zero-based lines is in the range."""
    return any(place.start.line <= line <= place.end.line for line in lines)


def _mode_after(request: Analyze, attempt: Attempt, done: RunDone) -> Mode | None:
    """Return the mode in which to repeat a run ("fake" or "real" tensors); None if its result is
    final.

    A run with fake tensors is repeated with real ones if the code needs values, and a run with real
    tensors with fake ones if a GPU is missing.
    """
    if done.needs_real and attempt.mode == "auto":
        return "real"
    missed = devices.is_missing_gpu_error(done.report.error or "")
    return "fake" if attempt.mode == "real" and missed and request.mode != "real" else None
