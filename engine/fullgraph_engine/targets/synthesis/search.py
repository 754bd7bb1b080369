"""Best-first search for example inputs: each step changes the arguments of the trial call that got
farthest."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from ..configurations import FEW, has_many_layers
from ..notation import Arguments, LiteralValue, Notation, Value
from ..silence import silence_output
from .candidate import InputCandidate, candidate_of, notation_of
from .certain import (
    CertainError,
    is_about_names,
    is_certain,
    is_shape_error,
    is_without_arguments,
    unequal_sizes,
)
from .guesses import Guesses, Namespace, SignatureParameter, is_width, parameters_of
from .obstacle import error_words
from .repair import repairs_for
from .repair_shapes import usual_ranks
from .repair_sizes import Gap, gap_of, solve_between
from .shortened import shorten_loops
from .subject import SearchSubject
from .trial import InputTrials, TimeIsUp, TrialOutcome, skip_initialization

_MOST_STEPS = 40
"""Maximum number of changes tried for one set of arguments."""
_PAST = 0.35
"""Weight of the changes that were already made to example inputs, when the search chooses which
inputs to change next. At 0 it would ignore how unusual they have become."""
_STALE = 0.15
"""Amount by which the score of a trial call with example inputs is lower for each earlier trial
that raised at the same line."""
_CONSTRUCTED = 5.0
"""Score of a trial call in which the constructor succeeded; any trial in which it failed has a
lower score."""
_FARTHER = 0.5
"""Minimum increase of the score if a trial call stops on a later line than the previous one."""
_BETTER, _CERTAIN = 1.0, 3.0
"""Maximum processor seconds of two steps: the search for usual inputs after unusual ones were
found, and the test whether an error depends on the inputs."""
_MOST_DOUBTFUL = 3
"""Maximum number of errors tested for whether they depend on the inputs."""
_TRY = 3.0
"""Maximum processor seconds of one trial call."""


@dataclass(frozen=True)
class FoundInputs:
    """Constructor arguments and inputs with which a module class ran without an exception."""

    notation: Notation
    tries: int
    seconds: float
    unusual: str = ""
    """Reason why the inputs are unusual, in words; empty if they are not."""
    shortened: str = ""
    """Description of the sizes over which the code loops, and which are therefore small; empty for
    none."""


@dataclass(frozen=True)
class NotFound:
    """A failed search for inputs; ``obstacle`` is one line about the exception of the trial call
    that got farthest."""

    obstacle: str
    tries: int
    seconds: float


class InputSearch:
    """A search for constructor arguments and inputs of one module class, by trial calls.

    Tensors are fake inside a fake mode, otherwise real.
    """

    def __init__(
        self,
        subject: Any,
        namespace: Namespace,
        constructed_with: Arguments | None = None,
        method: str = "forward",
    ) -> None:
        """Prepare the search; ``constructed_with`` are fixed constructor arguments, None to search
        for them too."""
        self.guesses = Guesses(subject, namespace, method)
        self.method = method
        self.init = _constructor_parameters(subject)
        self.inputs, self.more, _ = parameters_of(getattr(subject, method))
        self.trials = InputTrials(subject, namespace, self.guesses, self.inputs, method)
        self.subject = SearchSubject(self.guesses, self.init, self.inputs)
        said = None if constructed_with is None else Notation(constructed_with)
        self.given = None if said is None else candidate_of(said, self.trials.positional).init
        """Constructor arguments used in all trial calls; None if they are searched for too."""

    def run(
        self, seconds: float, before: Notation | None = None
    ) -> FoundInputs | NotFound | CertainError:
        """Search for at most ``seconds`` of processor time.

        First try ``before``, inputs that worked for an earlier version of the code. Return the
        inputs, or why none were found: ``CertainError`` if the code raises with any inputs.
        """
        starts = list(self.starts())
        first = None if before is None else candidate_of(before, self.trials.positional)
        if first is not None and self.given in (None, first.init):
            starts.insert(0, first)
        with skip_initialization(self.trials), silence_output():
            return self._run_queue(seconds, starts, first)

    def _run_queue(
        self, seconds: float, starts: list[InputCandidate], before: InputCandidate | None
    ) -> FoundInputs | NotFound | CertainError:
        """Try sets of arguments in order of their cost, beginning with ``starts``; return the
        result of the search.

        First try ``before``, which may take the whole time. Inputs that work but are unusual are
        returned only if nothing better is found soon.
        """
        began = time.process_time()
        count = itertools.count()
        queue: list[tuple[float, int, float, InputCandidate, _Stop | None]] = []
        known: set[InputCandidate] = set()
        visits: Counter[tuple[object, ...]] = Counter()
        best: TrialOutcome | None = None

        def push(rank: float, cost: float, candidate: InputCandidate, before: _Stop | None) -> None:
            if candidate not in known:
                known.add(candidate)
                heapq.heappush(queue, (rank, next(count), cost, candidate, before))

        unusual: FoundInputs | None = None
        first: TrialOutcome | None = None
        doubtful: dict[object, TrialOutcome] = {}
        reasons: set[object] = set()
        for number, start in enumerate(starts):
            push(-1e6 + number, 0.0, start, None)
        remaining = len(queue)
        while queue:
            left = seconds - (time.process_time() - began)
            if left <= 0:
                break
            _, _, cost, candidate, origin = heapq.heappop(queue)
            outcome = self.trials.run(candidate, left if candidate == before else min(left, _TRY))
            spent = time.process_time() - began
            if outcome.phase == 2:
                candidate = outcome.candidate
                if outcome.used:
                    outcome = self.trials.run(candidate, _TRY, afresh=True)
            outcome.unusual = outcome.unusual or self._unusual_number(outcome.candidate)
            if outcome.phase == 2:
                notation = notation_of(candidate, self.trials.positional, self.method)
                found_ = FoundInputs(notation, self.trials.count, spent, outcome.unusual)
                if not outcome.unusual or candidate == before or self.given is not None:
                    return found_ if candidate == before else self._shorten(found_, outcome)
                if unusual is None:
                    unusual, seconds = found_, min(seconds, spent + _BETTER)
                    for cost, changed in usual_ranks(candidate, self.subject.width(candidate)):
                        push(cost - 1e3, cost, changed, None)
                continue
            if is_shape_error(self.subject, outcome):
                doubtful.setdefault((outcome.place, unequal_sizes(outcome)), outcome)
                if len(doubtful) > _MOST_DOUBTFUL:
                    # Drop the exception of a trial, because it keeps the trial's module, which may
                    # be large, in memory.
                    del doubtful[min(reversed(doubtful), key=lambda key: doubtful[key].score)]
            is_bug = is_about_names(self.subject, outcome) or is_without_arguments(
                self.subject, outcome
            )
            first = first or (outcome if is_bug else None)
            reasons.add(outcome.place if is_bug else None)
            remaining -= 1
            if remaining <= 0 and len(reasons) == 1 and first is not None and is_bug:
                return self._make_error(first)
            if best is None or outcome.score > best.score:
                best = outcome
            place = (*outcome.place, _dimension_words(outcome))
            visits[place] += 1
            stop = _find_stop(outcome, origin)
            reached = stop.reached - _STALE * visits[place]
            found = [*repairs_for(self.subject, outcome)]
            if origin is not None and origin.gap is not None and stop.gap is not None:
                found += solve_between(origin.gap, stop.gap)
            steps = sorted(found, key=lambda step: step[0])
            known.add(outcome.candidate)
            if self.given is not None:
                steps = [one for one in steps if one[1].init == self.given]
            for step, changed in steps[:_MOST_STEPS]:
                push(_PAST * cost + step - reached, cost + step, changed, stop)
        certain = self._find_certain(first, best, doubtful)
        if certain is not None:
            return certain
        if unusual is not None:
            return unusual
        spent = time.process_time() - began
        if best is None:
            return NotFound("there was no time to try anything", 0, spent)
        return NotFound(last_obstacle(best), self.trials.count, spent)

    def _shorten(self, found: FoundInputs, outcome: TrialOutcome) -> FoundInputs:
        """Return found inputs with shorter loop dimensions if the code makes many calls of torch,
        else unchanged."""
        candidate, words = shorten_loops(
            outcome.candidate, outcome.calls, functools.partial(self.trials.run, seconds=_TRY)
        )
        if not words or self.trials.run(candidate, _TRY, afresh=True).phase != 2:
            return found
        notation = notation_of(candidate, self.trials.positional, self.method)
        return replace(found, notation=notation, tries=self.trials.count, shortened=words)

    def _find_certain(
        self,
        first: TrialOutcome | None,
        best: TrialOutcome | None,
        doubtful: dict[object, TrialOutcome],
    ) -> CertainError | None:
        """Return an error that the code raises with any inputs, if the failed trial calls show one;
        else None.

        ``first`` is the first trial in which the constructor failed as by a bug, and ``best`` the
        trial with the most progress. ``doubtful`` are trials that failed because two sizes differ;
        they are repeated with other sizes.
        """
        if first is not None and is_without_arguments(self.subject, first):
            return self._make_error(first)
        if best is not None and is_about_names(self.subject, best):
            return self._make_error(best)
        if not doubtful:
            return None
        until = time.process_time() + _CERTAIN

        def run(candidate: InputCandidate) -> TrialOutcome:
            return self.trials.run(candidate, max(until - time.process_time(), 0.01))

        last = sorted(doubtful.values(), key=lambda one: one.score, reverse=True)
        for one in last[:_MOST_DOUBTFUL]:
            # If a trial with usual inputs got farther, the error does not occur with all inputs.
            farthest = best is None or bool(best.unusual) or best.score <= one.score
            if farthest and is_certain(self.subject, one, run):
                return self._make_error(one)
        return None

    def _make_error(self, outcome: TrialOutcome) -> CertainError:
        notation = notation_of(outcome.candidate, self.trials.positional, self.method)
        return CertainError(notation, last_obstacle(outcome))

    def _unusual_number(self, candidate: InputCandidate) -> str:
        """Return why the constructor's arguments are unusual, in words; empty if they are not."""
        for name, value in candidate.init:
            parameter = self.subject.init.get(name)
            default = parameter.default if parameter is not None else None
            if value == LiteralValue(1) and is_width(name) and default != 1:
                return f"`{name}` is 1"
        return ""

    @functools.cached_property
    def constructed_arguments(self) -> list[dict[str, Value]]:
        """Return the constructor arguments of each call of the class in code, by parameter;
        arguments equal to defaults are left out."""
        taken = {one.name: one for one in self.init}
        found: list[dict[str, Value]] = []
        for known in self.guesses.constructed_arguments(self.init):
            changed = {
                name: value
                for name, value in known.items()
                if name not in taken
                or taken[name].required
                or not _is_default(value, taken[name].default)
            }
            if changed and changed not in found and taken.keys() >= changed.keys():
                found.append(changed)
        return found

    def starts(self) -> Iterator[InputCandidate]:
        """Yield the first example inputs to try for a class or function.

        They have only the required arguments, and small values for arguments like ``num_layers``.
        """
        given = {one.name: self.guesses.argument(one)[0] for one in self.init if one.required}
        small: dict[str, Value] = {
            one.name: LiteralValue(FEW)
            for one in self.init
            if has_many_layers(one.name, one.default)
        }
        guessed = [{**given, **small}, given]
        seen = [{**given, **small, **known} for known in self.constructed_arguments]
        arguments = [*seen, *guessed] if given else [*guessed, *seen]
        sides = [tuple(one.items()) for one in arguments] if self.given is None else [self.given]
        for init in sides:
            candidate = InputCandidate(init)
            inputs = [
                (one.name, self.subject.input(one, candidate)[0])
                for one in self.inputs
                if one.required
            ]
            if not inputs and self.more:
                inputs = [("*0", self.subject.input(SignatureParameter("x", True), candidate)[0])]
            elif not inputs and self.inputs:
                inputs = [(self.inputs[0].name, self.subject.input(self.inputs[0], candidate)[0])]
            yield InputCandidate(init, tuple(inputs))


def _is_default(value: Value, default: Any) -> bool:
    plain = isinstance(value, LiteralValue) and type(value.value) is type(default)
    return plain and value == LiteralValue(default)


def _constructor_parameters(subject: type) -> tuple[SignatureParameter, ...]:
    """Return the constructor's parameters, including keywords that it passes on to the constructor
    of its base class."""
    found: dict[str, SignatureParameter] = {}
    for kind in subject.__mro__:
        own = vars(kind).get("__init__")
        if own is None:
            continue
        parameters, _, keywords = parameters_of(own)
        for one in parameters:
            found.setdefault(one.name, one)
        if not keywords:
            break
    return tuple(found.values())


def _progress_score(outcome: TrialOutcome) -> float:
    """Return the progress of a trial call, in units of cost.

    Twice as many calls of torch are worth one change of an argument.
    """
    phase, calls, line = outcome.score
    far = 1.2 * math.log2(1 + calls) + 0.01 * line
    return far + _CONSTRUCTED if phase else min(far, _CONSTRUCTED)


@dataclass(frozen=True)
class _Stop:
    """The place of the code where a trial call raised, and the trial's progress score."""

    path: tuple[tuple[CodeType, int], ...]
    reached: float
    gap: Gap | None


def _find_stop(outcome: TrialOutcome, before: _Stop | None) -> _Stop:
    """Return where a trial call raised. ``before`` is where it raised before its arguments were
    changed, or None.

    A later line counts as progress even with fewer calls of torch, for example if a loop is
    skipped.
    """
    reached = _progress_score(outcome)
    if before is not None and _is_past(outcome.path, before.path):
        reached = max(reached, before.reached + _FARTHER)
    return _Stop(outcome.path, reached, gap_of(outcome))


def _is_past(
    path: tuple[tuple[CodeType, int], ...], before: tuple[tuple[CodeType, int], ...]
) -> bool:
    for (function, line), (other, before_line) in zip(path, before):  # noqa: B905 - the common part
        if function is not other:
            return False
        if line != before_line:
            return line > before_line
    return False


def _dimension_words(outcome: TrialOutcome) -> str:
    """Return the number of the dimension that a trial call's exception names; empty without one.

    Torch checks dimensions one by one, so another number means progress.
    """
    named = re.search(r"dimension (-?\d+)", error_words(outcome.error))
    return named[1] if named else ""


def last_obstacle(outcome: TrialOutcome) -> str:
    """Return one line about the exception that stopped a trial call."""
    error = outcome.error
    text = error_words(error)
    kind = type(error).__name__
    where = "forward" if outcome.phase == 1 else "the constructor"
    if isinstance(error, TimeIsUp):
        return f"{where} took too long"
    return f"{where} raised {kind}: {text[:160]}" if text else f"{where} raised {kind}"
