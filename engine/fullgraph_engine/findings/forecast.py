"""Forecast which later calls of a target recompile it.

The target is called again with other sizes, other values or in another mode, and Dynamo's reaction
is recorded. Each experiment runs in a fork, so that the caches of Dynamo and the state of the
module from one experiment do not affect another.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch

from .. import tracing
from ..protocol import Finding, Range
from ..protocol.recompiles import ForecastRow, Verdict
from ..targets import Call
from ..tracing.recording import FailedGuard, Recompile, Recording
from ..tracing.variations import Inputs
from . import dimensions, value_guards
from .call_changes import CALLS, CallChange, CallChanges
from .forecast_findings import SETTLING, every_call_finding, every_value_finding
from .places import FindingPlace, SourceText
from .recompiles import (
    describe_change,
    guarded_value_name,
    latest_failures,
    place_of,
)

MOST_SIZES = 8
MOST_FLAGS = 8
TIMES = 3.0
"""Time limit of all experiments together, divided by the duration of the first trace."""
SHORTEST = 5.0
"""Minimum time limit of all experiments together, in seconds of processor time. It applies if the
first trace was short.
"""
LONGEST = 20.0

_times = os.times

T = TypeVar("T")
_T = TypeVar("_T", covariant=True)


class WorkAnswer(Protocol[_T]):
    """The result of a function that was evaluated in another process.

    ``lost`` is a clause on why the result is missing; empty if it is not. ``late``: the time limit
    stopped the function. ``used`` is processor time in seconds. It is 0 for a direct child process,
    because the system adds the child's time to this process's.
    """

    @property
    def value(self) -> _T | None: ...
    @property
    def lost(self) -> str: ...
    @property
    def late(self) -> bool: ...
    @property
    def used(self) -> float: ...


class Branch(Protocol):
    """A callable that evaluates a function in a forked process, so that Dynamo's caches and the
    module stay unchanged in this process.
    """

    def __call__(self, work: Callable[[], T], seconds: float, name: str) -> WorkAnswer[T]:
        """Evaluate ``work`` in a forked process within ``seconds`` of processor time; return its
        result or how the process ended.

        ``name`` identifies the function across processes that forecast the same call, so that its
        result can be reused.
        """


@dataclass
class ForecastResult:
    """The recompiles seen when a target (function or module) was called again with changed inputs.

    ``seconds`` is the wall time of all experiments. ``note`` says in sentences which experiments
    were skipped or are inconclusive.
    """

    rows: list[ForecastRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    note: str = ""
    seconds: float = 0.0
    raised: bool = False
    """True if the call with unchanged inputs raised, so that no experiments were made."""


class Forecaster:
    """An experimenter that calls one target again with changed inputs, to see what recompiles.

    Use it inside ``tensor_mode``.
    """

    def __init__(
        self,
        call: Call,
        source: SourceText,
        fallback: Range,
        branch: Branch,
        begin: Callable[[], None],
        batch: Sequence[tuple[torch.Tensor, int]],
        rows: bool,
    ) -> None:
        self.call, self.source, self.fallback = call, source, fallback
        self._branch = branch
        self._begin = begin
        """Function that restarts the fake tensor mode. Each experiment then gets the same values
        when code reads from fake tensors in the same order.
        """
        self._inputs = Inputs(call.function, call.args, call.kwargs)
        self._changes = CallChanges(call, self._inputs)
        self._reported = {(id(tensor), dim) for tensor, dim in batch}
        self._reported |= {(id(wish.tensor), wish.dim) for wish in call.dynamic}
        self._restless: set[str] = set()
        """Names of guarded values that change from call to call although the inputs are equal, such
        as a counter."""
        self._left_out: list[str] = []
        """Names of the changed inputs whose experiments were skipped for lack of time."""
        self._lost: list[tuple[str, str]] = []
        """Names of the changed inputs whose experiments failed for another reason, each with the
        reason."""
        self._until = 0.0
        self._guarded: set[int] = set()
        """Zero-based lines with findings about guarded values that change with each call. The first
        call already showed these values.
        """
        self._rows = rows
        """True to report a row for every changed input, also without a recompile."""
        self._forecast = ForecastResult()

    def run(self) -> ForecastResult:
        started = time.perf_counter()
        self._run_experiments(_processor_seconds())
        self._forecast.seconds = round(time.perf_counter() - started, 4)
        return self._forecast

    def _run_experiments(self, started: float) -> None:
        first = self._trace_change()
        if first.failure is not None:
            self._forecast.raised = True
            words = f"{first.failure.kind}: {first.failure.message}".split("\n")[0]
            self._forecast.note = (
                f"The call with the example inputs raised ({words}), so other inputs were not "
                "tried."
            )
            return
        if not any(frame.outcome == "compiled" for frame in first.frames):
            self._forecast.note = "Nothing was compiled, so nothing can be recompiled."
            return
        given = value_guards.CalledWith.from_call(
            self.call.function, self.call.args, self.call.kwargs
        )
        self._guarded = {
            finding.range.start.line
            for finding in value_guards.value_guard_findings(
                first, self.source, given, self.fallback
            )
        }
        budget = min(TIMES * (_processor_seconds() - started), LONGEST)
        self._until = started + max(SHORTEST, budget)
        if not self._settle_caches():
            return
        for change_ in self._all_at_once(self._size_changes()):
            self._run_experiment(change_)
        for change_ in self._flag_changes():
            self._run_experiment(change_)
        notes = [f"With another {name} {how}." for name, how in self._lost]
        if self._left_out:
            notes.append(f"Skipped (time limit reached): {', '.join(self._left_out)}.")
        self._forecast.note = " ".join(notes)

    @property
    def _left(self) -> float:
        """Seconds that remain for experiments until the time limit."""
        return self._until - _processor_seconds()

    def _run_experiment(self, change_: CallChange) -> None:
        if self._left <= 0:
            self._left_out.append(change_.name)
            return
        answer = self._run_work(functools.partial(self._trace_calls, change_), change_.identity)
        calls = self._take_answer(answer, [change_.name])
        if calls is not None and not any(call.failure for call in calls):
            self._conclude_change(change_, calls)

    def _run_work(self, work: Callable[[], T], name: str) -> WorkAnswer[T]:
        answer = self._branch(work, max(self._left, 0.1), name)
        self._until -= answer.used
        return answer

    def _take_answer(self, answer: WorkAnswer[T], names: list[str]) -> T | None:
        if answer.late:
            self._left_out += names
        elif answer.lost:
            self._lost += [(f"`{name}`", answer.lost) for name in names]
        return answer.value

    def _all_at_once(self, changes: list[CallChange]) -> list[CallChange]:
        """Change all sizes together in one experiment, and report the sizes that recompile only
        once.

        Return the changes that need experiments of their own. These are all changes if the combined
        call failed.
        """
        if len(changes) < 2 or self._left <= 0:
            return changes
        together = CallChange(
            "size",
            "all sizes",
            "",
            tuple(map(str, range(CALLS))),
            sizes=tuple(
                {place: size for one in changes for place, size in one.sizes[number].items()}
                for number in range(CALLS)
            ),
        )
        # If the combined experiment fails, each size is tried alone.
        calls = self._run_work(
            functools.partial(self._trace_calls, together), together.identity
        ).value
        if not calls or any(call.failure for call in calls):
            return changes
        why = self._failed_recompiles(calls[0])
        if not why or any(self._failed_recompiles(call) for call in calls[1:]):
            return changes
        open_: list[CallChange] = []
        for one in changes:
            names = set(one.name.split(", "))
            mine = [
                (recompile, failed)
                for recompile, failed in why
                if guarded_value_name(failed) in names
            ]
            if mine:
                self._add_row(
                    one, "once", [failed for _, failed in mine], self._recompile_place(*mine[0])
                )
            else:
                open_.append(one)
        return open_

    # -- calls --------------------------------------------------------------------------------

    def _trace_change(self, change_: CallChange | None = None, number: int = 0) -> Recording:
        sizes = change_.sizes[number] if change_ and change_.sizes else {}
        values = change_.values[number] if change_ and change_.values else {}
        self._begin()
        args, kwargs, renewed = self._inputs.make_arguments(sizes, values)
        places = {id(leaf.value): at for at, leaf in enumerate(self._inputs.leaves)}
        dynamic = [
            (renewed[at], wish.dim)
            for wish in self.call.dynamic
            if (at := places.get(id(wish.tensor), -1)) in renewed
        ]
        return tracing.trace(self.call.function, args, kwargs, dynamic=dynamic)

    def _trace_calls(self, change_: CallChange) -> list[Recording]:
        """Call the target with the changed inputs until a call compiles nothing; return one
        recording per call.

        Call this in a forked process.
        """
        if change_.training is not None:
            self.call.function.train(change_.training)  # type: ignore[attr-defined]
        recordings: list[Recording] = []
        for number in range(len(change_.tried)):
            recording = self._trace_change(change_, number)
            # Keep only the fields that the forecast reads, because the process sends them to its
            # parent.
            reduced = Recording(
                frames=recording.frames,
                symbols=recording.symbols,
                specializations=recording.specializations,
                recompiles=recording.recompiles,
                failure=recording.failure,
            )
            recordings.append(reduced)
            if recording.failure is not None or not self._failed_recompiles(recording):
                break
        return recordings

    def _settle_caches(self) -> bool:
        """Call the target with unchanged inputs until a call does not recompile.

        Return False if a call raises.
        """
        seen: list[Recording] = []
        for _ in range(SETTLING):
            recording = self._trace_change()
            if recording.failure is not None:
                self._forecast.note = (
                    "A second call with the same inputs raised, so other inputs were not tried."
                )
                return False
            changed = [one for again in recording.recompiles for one in latest_failures(again)]
            if not changed:
                break
            seen.append(recording)
            self._restless |= {guarded_value_name(one) for one in changed}
        if not seen:
            return True
        verdict: Verdict = "always" if len(seen) == SETTLING else "once"
        change_ = CallChange("call", "the same inputs", "", ("again",) * len(seen))
        why = [(one, failed) for one in seen[-1].recompiles for failed in latest_failures(one)]
        place = self._recompile_place(*why[0]) if why else None
        self._add_row(change_, verdict, [failed for _, failed in why], place)
        if verdict == "always":
            for recompile, failed in why[:MOST_FLAGS]:
                place = self._recompile_place(recompile, failed)
                if place.range.start.line not in self._guarded:
                    finding = every_call_finding(recompile, failed, place, self.source)
                    self._forecast.findings.append(finding)
        return True

    def _failed_recompiles(self, recording: Recording) -> list[tuple[Recompile, FailedGuard]]:
        return [
            (recompile, failed)
            for recompile in recording.recompiles
            for failed in latest_failures(recompile)
            if guarded_value_name(failed) not in self._restless
        ]

    # -- changes ------------------------------------------------------------------------------

    def _size_changes(self) -> list[CallChange]:
        """Return experiments for the sizes that may vary, without sizes for which the code
        raises."""
        groups = self._changes.size_groups()
        self._left_out += [self._changes.name_of_sizes(group) for group in groups[MOST_SIZES:]]
        options = [self._changes.resize_options(group) for group in groups[:MOST_SIZES]]
        answer = self._run_work(
            functools.partial(self._workable_options, options), "sizes that work"
        )
        chosen = self._take_answer(answer, [several[0].name for several in options])
        if chosen is None:
            return []
        return [
            several[number]
            for several, number in zip(options, chosen, strict=True)
            if number is not None
        ]

    def _workable_options(self, options: list[list[CallChange]]) -> list[int | None]:
        """Return, for each group of alternative changes, the index of the first change with which
        the target runs without Dynamo; None if all of them raise.
        """
        return [
            next((n for n, one in enumerate(several) if self._change_works(one)), None)
            for several in options
        ]

    def _change_works(self, change_: CallChange) -> bool:
        self._begin()
        args, kwargs, _ = self._inputs.make_arguments(change_.sizes[0])
        try:
            tracing.call_eagerly(self.call.function, args, kwargs)
        except BaseException:  # the user's code may raise any exception
            return False
        return True

    def _flag_changes(self) -> list[CallChange]:
        flags = [*self._changes.value_changes(), *self._changes.mode_changes()]
        if not self._rows:
            flags = [flag for flag in flags if flag.of_note and len(flag.tried) == CALLS]
        self._left_out += [flag.name for flag in flags[MOST_FLAGS:]]
        return flags[:MOST_FLAGS]

    # -- conclusions from the calls -------------------------------------------------------------

    def _conclude_change(self, change_: CallChange, calls: list[Recording]) -> None:
        recompiled = [why for recording in calls if (why := self._failed_recompiles(recording))]
        if not recompiled:
            self._add_row(change_, "stays", [], None)
            return
        count = len(recompiled)
        verdict: Verdict = "once"
        if count > 1:
            verdict = "always" if count == CALLS else "conditional"
        # The first recompile is for the changed value; later recompiles show which values stay
        # fixed.
        why = recompiled[-1]
        pinned = self._place_of_specialization(why, calls[count - 2]) if count > 1 else None
        place = pinned or self._recompile_place(*why[0])
        self._add_row(change_, verdict, [failed for _, failed in why], place)
        if verdict != "always" or not change_.of_note:
            return
        if change_.kind == "size" and pinned is not None and self._is_reported(change_):
            return  # the search for specialized dimensions already reports this size
        # The first call's findings already report a guarded number. A counter rarely changes its
        # type, and Dynamo treats it as symbolic unless a line specializes it.
        counts = change_.kind == "value" and "." not in change_.first
        if counts and place.range.start.line in self._guarded:
            return
        self._forecast.findings.append(
            every_value_finding(change_, why, place, self.source, pinned=pinned is not None)
        )

    def _is_reported(self, change_: CallChange) -> bool:
        places = [
            (id(self._inputs.leaves[at].value), dim) for sizes in change_.sizes for at, dim in sizes
        ]
        return all(place in self._reported for place in places)

    def _place_of_specialization(
        self, why: list[tuple[Recompile, FailedGuard]], before: Recording
    ) -> FindingPlace | None:
        """Return the source position at which the code specialized the size whose change caused the
        recompiles; None if the code did not specialize it.

        ``why`` are the recompiles with their failed guards, and ``before`` is the recording of the
        previous compilation.
        """
        sizes = {
            f"{failed.source}.size()[{failed.detail.partition(' ')[2]}]"
            for _, failed in why
            if failed.detail.startswith("size ")
        }
        for event in before.specializations:
            if dimensions.symbol_source(event, before) in sizes:
                return self.source.locate(event.stack, self.fallback)
        return None

    def _recompile_place(self, recompile: Recompile, failed: FailedGuard) -> FindingPlace:
        return place_of(failed, recompile, self.source, self.fallback)

    def _add_row(
        self,
        change_: CallChange,
        verdict: Verdict,
        failures: Sequence[FailedGuard],
        place: FindingPlace | None,
    ) -> None:
        self._forecast.rows.append(
            ForecastRow(
                change_.kind,
                change_.name,
                change_.first,
                change_.tried,
                verdict,
                tuple(dict.fromkeys(describe_change(failed) for failed in failures))[:MOST_FLAGS],
                place.range if place is not None else None,
            )
        )


def _processor_seconds() -> float:
    """Return the processor time of this process and its ended children, in seconds."""
    return sum(_times()[:4])
