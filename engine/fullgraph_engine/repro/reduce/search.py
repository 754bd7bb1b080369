"""The search for a smaller program by passes over its syntax tree.

A pass proposes edits to the best program so far. Most edits can be combined, so the search tries
all of them together, then each half of a group that fails, and so on. While a candidate runs, the
search submits the next ones as if it failed, and discards them if it succeeds. The result depends
only on the verdicts, not on their timing.
"""

from __future__ import annotations

import enum
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from time import monotonic
from typing import Protocol

from ...protocol import count_equal_ends
from .edits import Conflict, Incomplete, TreeEdit, apply_edits
from .program import ParsedProgram, format_tree
from .validity import find_unbound_names, has_endless_loop


class InterestingVerdict(Protocol):
    """The result of testing one program: ``interesting`` says whether it still shows the
    finding.
    """

    @property
    def interesting(self) -> bool: ...


class Tester(Protocol):
    """Interface for testers, which can test up to ``capacity`` programs at the same time."""

    @property
    def capacity(self) -> int: ...
    def submit(self, text: str) -> int: ...
    def wait(self) -> tuple[int, InterestingVerdict]: ...
    def kill(self, ticket: int) -> None: ...


@dataclass(frozen=True)
class Pass:
    """A step of the reducer; it proposes groups of edits that may make a program smaller.

    The edits of a group are first tried together, so edits that exclude each other are in separate
    groups. ``basic`` passes run again with edits that failed, when all passes are exhausted.
    ``last`` passes run once at the end. ``likely`` passes usually succeed. Groups of at most
    ``finest`` edits are not divided. ``order`` returns a sort key of a program, which each accepted
    edit must make smaller.
    """

    name: str
    groups: Callable[[ParsedProgram], Iterable[Sequence[TreeEdit]]]
    basic: bool = False
    last: bool = False
    likely: bool = False
    finest: int = 1
    order: Callable[[ParsedProgram], object] = lambda program: program.size


_Group = tuple[TreeEdit, ...]


class _Stage(enum.Enum):
    """A stage of the search: rounds of all passes, a retry of failed edits, or the last passes."""

    ROUNDS = enum.auto()
    AGAIN = enum.auto()
    LAST = enum.auto()


@dataclass(frozen=True)
class _Position:
    """A position in the search: the best program, the pass, and the pass's remaining groups of
    edits.

    ``best`` is ``base`` with the ``accepted`` edits. ``groups`` is None before the pass has
    started.
    """

    best: ParsedProgram
    number: int
    base: ParsedProgram
    accepted: _Group = ()
    groups: tuple[_Group, ...] | None = None
    stage: _Stage = _Stage.ROUNDS
    improved: bool = False
    again: bool = False


@dataclass(eq=False)
class _CandidateAttempt:
    """A program to test, and the positions at which the search continues.

    ``then`` is the position if the program shows the finding, else ``otherwise``. ``expected`` is
    the outcome that the search assumes until the test has ended.
    """

    program: ParsedProgram
    name: str
    then: _Position
    otherwise: _Position
    trace: object
    expected: bool
    ticket: int = -1
    verdict: bool | None = None

    @property
    def outcome(self) -> bool:
        return self.expected if self.verdict is None else self.verdict

    @property
    def following(self) -> _Position:
        return self.then if self.outcome else self.otherwise


class ReductionSearch:
    """A search for a smaller program, which ends at ``deadline``, a time of ``clock``.

    It runs passes until none makes the program smaller. ``report`` receives the text of each new
    best program and ``tried``, the number of programs tested so far.
    """

    def __init__(
        self,
        passes: Sequence[Pass],
        test: Tester,
        *,
        deadline: float,
        report: Callable[[str, int], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._passes = passes
        self._test = test
        self._deadline = deadline
        self._report = report
        self._clock = clock
        self.tried = 0
        # Attempts in progress; each assumes the outcomes of the attempts before it.
        self._path: deque[_CandidateAttempt] = deque()
        self._known: dict[str, bool] = {}
        self._failed: set[object] = set()
        self._scores: dict[str, int] = {}
        self._unbound: frozenset[str] = frozenset()
        self._anchors: tuple[str, ...] = ()

    def shows(self, program: ParsedProgram) -> bool:
        """Test one program alone; return whether it still shows the finding."""
        ticket = self._test.submit(program.text)
        self.tried += 1
        while True:
            decided, verdict = self._test.wait()
            if decided == ticket:
                return verdict.interesting

    def run(self, start: ParsedProgram) -> ParsedProgram:
        self._unbound = find_unbound_names(start.tree)
        self._anchors = tuple(word for word in _ANCHORS if word in start.text)
        best = start
        stream = self._next_attempts(_Position(start, 0, start))
        while self._clock() < self._deadline:
            exhausted = False
            while not exhausted and self._count_running() < max(1, self._test.capacity):
                attempt = next(stream, None)
                if attempt is None:
                    exhausted = True
                    break
                self._begin_attempt(attempt)
                self._path.append(attempt)
                if attempt.outcome:
                    stream = self._next_attempts(attempt.then)
                if self._clock() >= self._deadline:
                    break
            while self._path and self._path[0].verdict is not None:
                first = self._path.popleft()
                if first.verdict:
                    best = first.program
                    self._report(best.text, self.tried)
                elif first.trace is not None:
                    self._failed.add(first.trace)
            if not self._count_running():
                if exhausted:
                    return best
                continue
            decided = self._wait_for_attempt()
            if decided is not None and decided.verdict is not decided.expected:
                while self._path[-1] is not decided:
                    self._kill_attempt(self._path.pop())
                stream = self._next_attempts(decided.following)
        while self._path:
            self._kill_attempt(self._path.pop())
        return best

    def _count_running(self) -> int:
        return sum(1 for attempt in self._path if attempt.verdict is None)

    def _begin_attempt(self, attempt: _CandidateAttempt) -> None:
        known = self._known.get(attempt.program.text)
        if known is not None:
            attempt.verdict = known
            return
        attempt.ticket = self._test.submit(attempt.program.text)
        self.tried += 1

    def _wait_for_attempt(self) -> _CandidateAttempt | None:
        ticket, verdict = self._test.wait()
        for attempt in self._path:
            if attempt.verdict is None and attempt.ticket == ticket:
                attempt.verdict = verdict.interesting
                self._known[attempt.program.text] = verdict.interesting
                score = self._scores.get(attempt.name, 0) + (1 if verdict.interesting else -1)
                self._scores[attempt.name] = max(-2, min(2, score))
                return attempt
        return None

    def _kill_attempt(self, attempt: _CandidateAttempt) -> None:
        if attempt.verdict is None:
            self._test.kill(attempt.ticket)

    def _is_hopeless(self, program: ParsedProgram, trace: object) -> bool:
        """Whether a program need not be tested, because it or the same change failed or is expected
        to fail.
        """
        if self._known.get(program.text) is False or trace in self._failed:
            return True
        return any(
            not attempt.outcome
            and (attempt.program.text == program.text or (trace and attempt.trace == trace))
            for attempt in self._path
        )

    def _next_attempts(self, at: _Position) -> Iterator[_CandidateAttempt]:
        """Yield the next programs to test from a position of the search, assuming that each
        fails.
        """
        while True:
            if at.number == len(self._passes):
                if at.stage is _Stage.LAST:
                    return
                stage = _Stage.ROUNDS
                if not at.improved:
                    stage = _Stage.AGAIN if at.stage is _Stage.ROUNDS else _Stage.LAST
                at = _Position(at.best, 0, at.best, stage=stage)
            step = self._passes[at.number]
            if step.last is not (at.stage is _Stage.LAST) or (
                at.stage is _Stage.AGAIN and not step.basic
            ):
                at = replace(at, number=at.number + 1)
                continue
            if at.groups is None:
                try:
                    groups = tuple(tuple(group) for group in step.groups(at.best))
                except RecursionError:  # an expression is nested too deeply
                    groups = ()
                at = replace(at, base=at.best, accepted=(), groups=groups)
            while at.groups:
                group, rest = at.groups[0], at.groups[1:]
                failed = replace(at, groups=_split_group(group, step.finest) + rest)
                program = self._make_candidate(at, group, step)
                if program is not None:
                    trace = None
                    if len(group) == 1 and at.stage is not _Stage.AGAIN:
                        trace = _change_key(step.name, at.best, program)
                    if not self._is_hopeless(program, trace):
                        succeeded = replace(
                            failed,
                            best=program,
                            accepted=at.accepted + group,
                            groups=rest,
                            improved=True,
                            again=True,
                        )
                        expected = self._scores.get(step.name, 1 if step.likely else 0) > 0
                        yield _CandidateAttempt(
                            program, step.name, succeeded, failed, trace, expected
                        )
                at = failed
            if at.again:
                at = replace(at, groups=None, again=False)
            else:
                at = replace(at, groups=None, number=at.number + 1)

    def _make_candidate(self, at: _Position, group: _Group, step: Pass) -> ParsedProgram | None:
        """Apply a group of edits to the best program; None if the result is invalid or not smaller.

        ``at`` is the position of the search with the best program, and ``step`` the pass that
        proposed the edits.
        """
        try:
            text = format_tree(apply_edits(at.base.tree, (*at.accepted, *group)))
            program = ParsedProgram.parse(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Reject nonsense like ``1(x)`` or ``""[x]``.
                warnings.filterwarnings("error", _NONSENSE, SyntaxWarning)
                compile(text, "<candidate>", "exec", dont_inherit=True)
        except (Conflict, Incomplete, SyntaxError, ValueError, TypeError, AttributeError):
            return None
        except RecursionError:
            return None
        if not step.order(program) < step.order(at.best):  # type: ignore[operator]
            return None
        if any(word not in text for word in self._anchors):
            return None
        if has_endless_loop(program.tree) or not find_unbound_names(program.tree) <= self._unbound:
            return None
        return program


_NONSENSE = ".* is not (callable|subscriptable)|.* indices must be"

# Candidates must keep these texts of the original program, because without them Dynamo does not
# trace the program.
_ANCHORS = ("torch.compile(", "torch.export.export(", "torch._dynamo.optimize(", 'backend="eager"')


def _split_group(group: _Group, finest: int) -> tuple[_Group, ...]:
    if len(group) <= finest:
        return ()
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _change_key(name: str, before: ParsedProgram, after: ParsedProgram) -> object:
    """Return a key for the change that the pass ``name`` made from ``before`` to ``after``.

    A change is not tried if another change with an equal key has failed. The key ignores numbers,
    because a change that fails also fails for other sizes.
    """
    old, new = before.text.splitlines(), after.text.splitlines()
    first, last = count_equal_ends(old, new)
    changed = "\n".join(old[first : len(old) - last]), "\n".join(new[first : len(new) - last])
    alike = [_NUMBER.sub("0", text) for text in changed]
    if alike[0] == alike[1]:
        return name, *changed
    # Without numbers, removing either argument of f(1, 2) looks the same.
    words = [_WORD.findall(text) for text in changed]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False))
    return name, *alike, sum(1 for _ in same)


_NUMBER = re.compile(r"\b\d+\b")
_WORD = re.compile(r"\w+|\W")
