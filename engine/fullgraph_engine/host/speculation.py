"""Trace alternative execution paths of a target in advance, on an idle processor, after an edit.

A target (a function or module class) that had alternative paths before the edit usually has them
afterwards too. The first such path is the call in the other mode (training or evaluation). It can
be traced while the target's first run is still going.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from ..protocol import FoundProbe, Mode
from .attempts import Attempt
from .found import CacheByFile, FoundProbes
from .wire import BranchAnswer, PlannedRun


@dataclass(frozen=True)
class Expected:
    """The settings with which a target's alternative execution paths were last traced: fake or real
    tensors, and the encoded facts from the first trace."""

    mode: Mode
    known: str


ExpectedPaths = CacheByFile[tuple[str, int], Expected]
"""Cache, by file, of the targets that had alternative execution paths; keys are the target's name
and the number of its inputs."""


@dataclass
class _Speculation:
    """A run started early, on an idle processor: it traces an alternative execution path before the
    target's first run has ended."""

    attempt: Attempt
    found: FoundProbe | None
    """Inputs that a search had found for the target when this run was launched; None if its inputs
    were not searched for."""
    answer: BranchAnswer | None = None
    over: bool = False
    wanted: Attempt | None = None
    """Planned run that waits for the result of this one; None until the plan needs the result."""

    def add_answer(self, attempt: Attempt) -> Attempt:
        return replace(attempt, answers=(self.answer,) if self.answer is not None else ())


class Speculations:
    """The speculative runs (started early, on idle processors) of one analysis: queued ones,
    launched ones and their answers."""

    def __init__(self, path: str, expected: ExpectedPaths, found: FoundProbes) -> None:
        self._path, self._expected, self._found = path, expected, found
        self._queue: list[Attempt] = []
        """Runs to start early, once processors are idle."""
        self._launched: dict[tuple[int, int], _Speculation] = {}
        """Runs that were started early, by target number and number of its inputs."""

    def add_runs(self, runs: Iterable[PlannedRun]) -> None:
        """Queue a speculative run (started early, on an idle processor) for each target that had
        alternative paths in the previous version of the file."""
        entries = self._expected.entries_of(self._path)
        for planned in runs:
            expected = entries.get((planned.info.name, planned.probe))
            if expected is not None:
                mode, known = expected.mode, expected.known
                self._queue.append(Attempt(planned, mode, "paths", known=known, speculative=True))

    def next_attempt(self, firsts: Container[tuple[int, int]]) -> Attempt | None:
        """Return the next run to start early (on an idle processor), or None.

        ``firsts`` has the indices of the targets and inputs whose first run is in progress. Early
        runs for others are dropped.
        """
        while self._queue and self._queue[0].plan.at not in firsts:
            del self._queue[0]
        return self._queue[0] if self._queue else None

    def begin(self, attempt: Attempt) -> None:
        self._queue.remove(attempt)
        self._launched[attempt.plan.at] = _Speculation(attempt, self._found_for(attempt))

    def end(self, attempt: Attempt, answer: BranchAnswer | None) -> Attempt | None:
        """Store the ``answer`` of a finished speculative run (started early).

        Return the planned run that waits for it, or None.
        """
        speculation = self._launched.get(attempt.plan.at)
        if speculation is None:
            return None
        speculation.over, speculation.answer = True, answer
        return speculation.add_answer(speculation.wanted) if speculation.wanted else None

    def differs(self, attempt: Attempt) -> bool:
        """Whether a run that was started early for this target used other inputs or another kind of
        tensors than ``attempt``.

        The answer of that run is then useless.
        """
        speculation = self._launched.get(attempt.plan.at)
        return speculation is not None and (
            speculation.attempt.mode != attempt.mode
            or speculation.found != self._found_for(attempt)
        )

    def add_answer(self, attempt: Attempt) -> Attempt | None:
        """Return ``attempt`` with the answer of the run that was started early for its target;
        unchanged if there was none.

        Return None if that run is still going; ``attempt`` is then returned later by :meth:`end`.
        """
        speculation = self._launched.get(attempt.plan.at)
        if speculation is None:
            return attempt
        if speculation.over:
            return speculation.add_answer(attempt)
        speculation.wanted = attempt
        return None

    def remove(self, attempt: Attempt) -> None:
        """Discard the run that was started early for the target and inputs of ``attempt``."""
        self._launched.pop(attempt.plan.at, None)

    def remember(self, attempt: Attempt) -> None:
        """Record that a target has alternative execution paths, so that they are traced early after
        the next edit."""
        key = attempt.plan.info.name, attempt.plan.probe
        self._expected.add(self._path, key, Expected(attempt.mode, attempt.known))

    def forget(self, attempt: Attempt) -> None:
        """Record that a target no longer has alternative execution paths."""
        self._expected.forget(self._path, (attempt.plan.info.name, attempt.plan.probe))

    def clear(self) -> None:
        self._queue.clear()
        self._launched.clear()

    def _found_for(self, attempt: Attempt) -> FoundProbe | None:
        return self._found.entries_of(self._path).get(attempt.plan.info.name)
