"""Remember which targets had further execution paths, by file, to trace these in advance after an
edit.

The first question about the paths usually survives an edit: how the target behaves in its other
mode (training or evaluation). An idle processor can answer the question while the target's first
run is still going.
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
    """The mode (fake or real tensors) in which a target's further execution paths were traced, and
    the encoded state of its first run."""

    mode: Mode
    known: str


ExpectedPaths = CacheByFile[tuple[str, int], Expected]
"""Cache, by file, of the targets that had further execution paths; keys are the target's name and
the number of its inputs."""


@dataclass
class _Speculation:
    """A run that traces a target's further execution paths in advance, while the target's first run
    has not yet ended."""

    attempt: Attempt
    found: FoundProbe | None
    """Inputs that a search had found for the target when the speculative run was launched; None
    without a search result."""
    answer: BranchAnswer | None = None
    over: bool = False
    wanted: Attempt | None = None
    """The planned run that needs the speculation's answer and is launched when the answer arrives;
    None until then."""

    def add_answer(self, attempt: Attempt) -> Attempt:
        return replace(attempt, answers=(self.answer,) if self.answer is not None else ())


class Speculations:
    """The speculative runs of one analysis, as plain data: queued ones, launched ones and their
    answers."""

    def __init__(self, path: str, expected: ExpectedPaths, found: FoundProbes) -> None:
        self._path, self._expected, self._found = path, expected, found
        self._queue: list[Attempt] = []
        """Speculative runs that start once processors are idle."""
        self._launched: dict[tuple[int, int], _Speculation] = {}
        """Launched speculative runs, by target number and input number."""

    def add_runs(self, runs: Iterable[PlannedRun]) -> None:
        """Queue a speculative run for each target that had further execution paths in the previous
        version of the file."""
        entries = self._expected.entries_of(self._path)
        for planned in runs:
            expected = entries.get((planned.info.name, planned.probe))
            if expected is not None:
                mode, known = expected.mode, expected.known
                self._queue.append(Attempt(planned, mode, "paths", known=known, speculative=True))

    def next_attempt(self, firsts: Container[tuple[int, int]]) -> Attempt | None:
        """Return the next speculative run to launch, or None. Drop runs unless the first run with
        the same target and inputs is in progress, so that ``firsts`` contains it."""
        while self._queue and self._queue[0].plan.at not in firsts:
            del self._queue[0]
        return self._queue[0] if self._queue else None

    def begin(self, attempt: Attempt) -> None:
        self._queue.remove(attempt)
        self._launched[attempt.plan.at] = _Speculation(attempt, self._found_for(attempt))

    def end(self, attempt: Attempt, answer: BranchAnswer | None) -> Attempt | None:
        """Store the answer of a finished speculative run. Return the run that waits for the answer,
        or None."""
        speculation = self._launched.get(attempt.plan.at)
        if speculation is None:
            return None
        speculation.over, speculation.answer = True, answer
        return speculation.add_answer(speculation.wanted) if speculation.wanted else None

    def differs(self, attempt: Attempt) -> bool:
        """Whether a speculative run was launched with another mode or other inputs than
        ``attempt``, so that its answer cannot be used."""
        speculation = self._launched.get(attempt.plan.at)
        return speculation is not None and (
            speculation.attempt.mode != attempt.mode
            or speculation.found != self._found_for(attempt)
        )

    def add_answer(self, attempt: Attempt) -> Attempt | None:
        """Return ``attempt`` with the answer of its speculative run, if there was one. Return None
        if ``attempt`` must wait for the answer."""
        speculation = self._launched.get(attempt.plan.at)
        if speculation is None:
            return attempt
        if speculation.over:
            return speculation.add_answer(attempt)
        speculation.wanted = attempt
        return None

    def remove(self, attempt: Attempt) -> None:
        """Discard the speculative run for the target and inputs of ``attempt``."""
        self._launched.pop(attempt.plan.at, None)

    def remember(self, attempt: Attempt) -> None:
        """Remember for later versions of the file that the target has further execution paths."""
        key = attempt.plan.info.name, attempt.plan.probe
        self._expected.add(self._path, key, Expected(attempt.mode, attempt.known))

    def forget(self, attempt: Attempt) -> None:
        """Forget that the target had further execution paths."""
        self._expected.forget(self._path, (attempt.plan.info.name, attempt.plan.probe))

    def clear(self) -> None:
        self._queue.clear()
        self._launched.clear()

    def _found_for(self, attempt: Attempt) -> FoundProbe | None:
        return self._found.entries_of(self._path).get(attempt.plan.info.name)
