"""Minimize programs that may show a finding: choose one, make it smaller, verify it in a fresh
Python.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...protocol import Log, Reproduced, ReproFound, ReproProgress, from_plain, to_plain
from ...protocol.repro import ReproStage
from .. import inputs, reduce
from ..candidate import Candidates, ReproCandidate
from ..emit.script import assemble_script, environment_lines
from ..inputs.inlining import inline_small_tensors
from ..job import GRACE, TRIAL_SECONDS, VERIFYING, MinimizationJob, Say, Surroundings, TrialRunner
from ..verify import oracle
from ..verify.check import LOOKED_FOR
from ..verify.finding_signature import own_names
from ..verify.fresh_python import FreshPython, ScriptOutcome
from ..verify.oracle import Requirement, ShownFinding, Verdict
from .program import count_lines, end_of_imports, format_tree

_TELL_EVERY = 0.2
_BACKWARDS = 3
"""Number of earlier, larger programs to verify if the smallest program fails."""

_ROUNDS = ((False, 0.2), (True, 0.2), (False, 1.0))
"""Rounds of searching for a program that shows the finding.

Each has two values: whether tensors are fake, and the share of the remaining time that one program
may take, so that programs that hang do not use up the time.
"""

_UNVERIFIED = "The script was not verified in a fresh Python process."
_TOO_LATE = "No script that shows the finding was found within the time limit; raise the limit."
_OUT_OF_TIME = "The script was not verified, because the time limit was reached; raise the limit."
_NONE_SMALLER = "A smaller script may show the finding too, but none was verified."
_EARLIER = (
    "Smaller scripts show the finding only in a process that has traced other code before; this "
    "is the smallest script for a fresh process."
)

_monotonic = time.monotonic

Judge = Callable[[str, Requirement], tuple[Verdict, ShownFinding | None]]


class ProgramMinimizer:
    """A minimizer of the programs of one request; :meth:`run` searches, reduces and verifies."""

    trial_seconds = TRIAL_SECONDS
    verifying = VERIFYING

    def __init__(
        self, candidates: Candidates, job: MinimizationJob, around: Surroundings, emit: Say
    ) -> None:
        self.candidates, self.around, self.emit = candidates, around, emit
        self.request, self.started = job.request, job.began
        self.until = job.began + job.seconds
        self.tried = 0
        self.lines = 0
        self.notes: tuple[str, ...] = ()
        self.history: list[str] = []
        self.refused: list[str] = []
        """Messages about tested programs that do not show the finding, each with the finding that
        it shows instead.
        """
        self.kept: frozenset[str] = frozenset()
        """Source texts of calls that load data files; smaller programs must contain them."""
        self.slow: set[int] = set()
        """Indices of programs that crashed or exceeded their time limit."""
        self._last_report = 0.0
        self.fresh_name: FreshPython | None = None
        self.ahead: _EarlyVerification | None = None
        """Verification of an earlier program in a fresh Python, which runs during the search."""
        self.verified = False
        """True if a verified script was reported; unverified scripts do not replace it."""

    def run(self) -> None:
        self.fresh_name = FreshPython(self.around.scratch, self.around.forking)
        self.report_progress("looking", now=True)
        chosen = self.choose_candidate()
        if chosen is None:
            self.fresh_name.end()
            words = "\n".join((*self.candidates.left_out, *self.refused))
            self.emit(
                Log(self.request, "engine", f"Programs that do not show the finding:\n{words}\n")
            )
            late = _monotonic() > self.deadline()
            self.end(_TOO_LATE if late else self.failure_message())
            return
        candidate, requirement = chosen
        self.notes = candidate.notes
        self.history.append(candidate.text)
        self.report_program(candidate.text)
        self.reduce(candidate, requirement)
        self.verify(requirement)

    def judge(self) -> Judge:
        """Return the function that runs a program in a separate process and checks its finding."""
        return oracle.judge_program

    def trials(self, requirement: Requirement, seconds: float = 0.0) -> TrialRunner:
        """Return a runner that tests in separate processes if programs show the required finding.

        ``seconds`` limits the time of one program if it is not 0.
        """
        work = partial(_judge_in_trial, self.judge(), requirement, self.kept)
        return self.around.trials(work, seconds or self.trial_seconds, self.deadline())

    def failure_message(self) -> str:
        """Return a message for the user, used when none of the programs shows the finding."""
        return (
            "No separate script shows the finding: it may depend on code that ran before. Reduce "
            "the file by hand, or give the probe simpler inputs."
        )

    # -- choice of the first program ----------------------------------------------------------

    def choose_candidate(self) -> tuple[ReproCandidate, Requirement] | None:
        """Return the smallest program that shows the finding, and what smaller programs must
        show.
        """
        own = frozenset(self.candidates.own)
        for fake, share in _ROUNDS:
            left = self.deadline() - _monotonic()
            if left <= 0.0 or (share == 1.0 and not self.slow):
                break
            requirement = Requirement(
                self.candidates.signature,
                self.candidates.check,
                own,
                loose=True,
                fake=fake,
                times=self.candidates.times,
            )
            seconds = min(self.trial_seconds, share * left)
            found = self.find_first(requirement, seconds, self.slow if share == 1.0 else ())
            if found is not None:
                candidate, shown = found
                kept, signature = own | own_names(candidate.text), shown.signature
                return candidate, replace(
                    requirement, signature=signature, own=kept, loose=False, raises=shown.raises
                )
        return None

    def find_first(
        self, requirement: Requirement, seconds: float, among: Collection[int] = ()
    ) -> tuple[ReproCandidate, ShownFinding] | None:
        """Return the smallest program that shows the finding, and the finding; None if no program
        does.

        Programs run from small to large. After two thirds of the time they are taken alternately
        from both ends of the list, because the largest are the most likely to succeed. ``seconds``
        limits one program; ``among`` restricts the programs by index.
        """
        trials, until = self.trials(requirement, seconds), self.deadline()
        late, ends = (self.started + 2 * until) / 3, itertools.cycle((-1, 0))
        numbered = enumerate(self.candidates.programs)
        waiting = [(index, one) for index, one in numbered if not among or index in among]
        running: dict[int, int] = {}
        found: dict[int, ShownFinding] = {}
        while True:
            while (
                waiting
                and len(running) < trials.capacity
                and not found
                and (now := _monotonic()) < until
            ):
                index, candidate = waiting.pop(0 if now < late else next(ends))
                running[trials.submit(candidate.text)] = index
            # Wait only for candidates smaller than the best one so far.
            if not any(not found or index < min(found) for index in running.values()):
                for number in running:
                    trials.kill(number)
                break
            number, answer = trials.wait()
            index = running.pop(number)
            self.tried += 1
            verdict, shown = decode_verdict(answer)
            if shown is not None:
                found[index] = shown
            else:
                if answer is None:
                    self.slow.add(index)
                self.refused.append(f"{self.candidates.programs[index].origin}: {verdict.reason}")
            self.report_progress("looking")
        if not found:
            return None
        best = min(found)
        return self.candidates.programs[best], found[best]

    # -- reduction ----------------------------------------------------------------------------

    def reduce(self, candidate: ReproCandidate, requirement: Requirement) -> None:
        if self.candidates.data:
            self.kept = inputs.load_calls(candidate.text)
        trials = self.trials(requirement)
        before = self.tried

        def report(text: str, tried: int) -> None:
            self.tried = before + tried
            if text != self.history[-1]:
                self.history.append(text)
                if self.is_shorter(text):
                    self.report_program(text)
            self.report_progress("reducing")

        try:
            best = reduce.reduce_program(
                candidate.text,
                _Tester(trials, self.verify_early),
                deadline=self.deadline(),
                report=report,
            )
        except Exception:  # a bug of the reducer: the programs found so far are still valid
            self.emit(Log(self.request, "engine", traceback.format_exc()))
        else:
            self.history.append(best)
        readable = inline_small_tensors(self.history[-1], Path(self.around.scratch))
        if readable != self.history[-1] and self.shows(readable, trials):
            self.history.append(readable)
        if not requirement.fake:
            self.fix_seed(trials)
        self.report_program(self.history[-1])

    def fix_seed(self, trials: TrialRunner) -> None:
        """Add a fixed random seed to the smallest program, if other seeds hide the finding."""
        program = self.history[-1]
        if all(self.shows(seed_program(program, number), trials) for number in OTHER_SEEDS):
            return
        chosen = seed_program(program, 0)
        if self.shows(chosen, trials):
            self.history.append(chosen)

    def shows(self, text: str, trials: TrialRunner) -> bool:
        """Run the program ``text`` in a separate process; return whether it shows the finding."""
        trials.submit(text)
        _, answer = trials.wait()
        self.tried += 1
        self.report_progress("reducing")
        return decode_verdict(answer)[0].interesting

    def deadline(self) -> float:
        return self.until - min(self.verifying, (self.until - self.started) / 3)

    # -- verification in a fresh Python -------------------------------------------------------

    def verify_early(self) -> None:
        """Verify the smallest program so far in parallel to the search, after half of the time.

        This program is the result if time runs out before a smaller program is verified.
        """
        if self.ahead is None:
            if self.fresh_name is None or _monotonic() < (self.started + self.deadline()) / 2:
                return
            self.ahead = _EarlyVerification(self.history[-1], self.fresh_name)
            self.ahead.process.begin(self.write_script(self.ahead.program, "earlier.py"))
            self.fresh_name = FreshPython(self.around.scratch, self.around.forking)
        self.report_early_verification()

    def report_early_verification(self) -> None:
        """Report the program that was verified during the search, if it shows the finding."""
        ahead = self.ahead
        if ahead is None or ahead.ended is not None:
            return
        ended = ahead.ended = ahead.process.wait(0.0)
        if ended is not None and _shows_finding(ended):
            notes = (*self.notes, _NONE_SMALLER)
            self.report_script(ahead.program, notes, verified=True, output=ended.output)

    def verify(self, requirement: Requirement) -> None:
        """Run the smallest program in a fresh Python; if it lacks the finding, try earlier
        programs.
        """
        self.report_progress("verifying", now=True)
        late = False
        for number, program in enumerate(_earlier_programs(self.history)):
            ended = self.execute_script(program)
            if _shows_finding(ended):
                notes = (*self.notes, _EARLIER) if number else self.notes
                self.report_script(program, notes, verified=True, output=ended.output)
                break
            late = ended.status is None or _monotonic() > self.until
            if late:
                break
        if not self.verified:
            self.report_early_verification()
        if self.ahead is not None and self.ahead.ended is None:
            self.ahead.process.end()
        if self.fresh_name is not None:
            self.fresh_name.end()
        if self.verified:
            self.end("")
            return
        self.report_script(self.history[-1], (*self.notes, _UNVERIFIED), output=ended.output)
        if late:
            self.end(_OUT_OF_TIME)
            return
        reason = (
            "The script shows the finding in fullgraph's process, but not in a fresh Python process"
        )
        if requirement.fake:
            reason += ", where its tensors are real and not fake"
        self.end(f"{reason}; look at the output of the script.")

    def execute_script(self, program: str) -> ScriptOutcome:
        seconds, ahead = max(self.until - _monotonic(), 0.0) + GRACE, self.ahead
        if ahead is not None and ahead.program == program:
            ahead.ended = ahead.ended or ahead.process.wait(seconds) or ahead.process.end()
            return ahead.ended
        fresh = self.fresh_name or FreshPython(self.around.scratch, self.around.forking)
        self.fresh_name = None
        fresh.begin(self.write_script(program, "repro.py"))
        return fresh.wait(seconds) or fresh.end()

    def write_script(self, program: str, name: str) -> str:
        """Write the script of a program to a file of this name and return its path."""
        path = os.path.join(self.around.scratch, name)  # noqa: PTH118
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(assemble_script(program, self.candidates, self.notes))
        return path

    # -- progress reports ---------------------------------------------------------------------

    def is_shorter(self, program: str) -> bool:
        return count_lines(assemble_script(program, self.candidates)) < self.lines

    def report_program(self, program: str) -> None:
        """Report a smaller program to the user as a script.

        Once a verified script was reported, only note the number of lines of the smaller one.
        """
        if self.verified:
            self.lines = count_lines(assemble_script(program, self.candidates, self.notes))
        else:
            self.report_script(program, (*self.notes, _UNVERIFIED))

    def report_script(
        self, program: str, notes: tuple[str, ...], *, verified: bool = False, output: str = ""
    ) -> None:
        self.verified |= verified
        notes = (*notes, *inputs.data_note(program, Path(self.around.scratch)))
        text = assemble_script(program, self.candidates, notes)
        self.lines = count_lines(text)
        about = "\n".join(environment_lines())
        data = inputs.needed_files(program)
        self.emit(ReproFound(self.request, text, self.lines, verified, notes, output, about, data))

    def report_progress(self, stage: ReproStage, *, now: bool = False) -> None:
        at = _monotonic()
        if now or at - self._last_report >= _TELL_EVERY:
            self._last_report = at
            seconds = round(at - self.started, 2)
            self.emit(ReproProgress(self.request, stage, self.lines, self.tried, seconds))

    def end(self, reason: str) -> None:
        seconds = round(_monotonic() - self.started, 2)
        self.emit(Reproduced(self.request, seconds, self.tried, not reason, reason))


@dataclass
class _EarlyVerification:
    """A program, the Python process that runs it for verification, and the outcome once it has
    ended.
    """

    program: str
    process: FreshPython
    ended: ScriptOutcome | None = None


class _Tester:
    """Lets the reducer test programs through a ``TrialRunner``; it calls ``meanwhile`` before each
    wait for a result.
    """

    def __init__(self, trials: TrialRunner, meanwhile: Callable[[], None]) -> None:
        self._trials, self._meanwhile = trials, meanwhile
        self.capacity = trials.capacity

    def submit(self, text: str) -> int:
        return self._trials.submit(text)

    def wait(self) -> tuple[int, Verdict]:
        self._meanwhile()
        number, answer = self._trials.wait()
        return number, decode_verdict(answer)[0]

    def kill(self, ticket: int) -> None:
        self._trials.kill(ticket)


def _judge_in_trial(
    judge: Judge, requirement: Requirement, kept: frozenset[str], text: str
) -> bytes:
    """Test a program; this runs in a separate process.

    ``judge`` executes the program, and ``requirement`` is the finding that it must show. ``kept``
    are source texts of calls that the program must contain. Return the encoded verdict.
    """
    if kept and not kept <= inputs.load_calls(text):
        return encode_verdict(Verdict(False, "it does not load all saved data"), None)
    return encode_verdict(*judge(text, requirement))


def encode_verdict(verdict: Verdict, shown: ShownFinding | None) -> bytes:
    """Encode a verdict and the shown finding as the bytes that a separate process returns."""
    plain = None if shown is None else to_plain(shown)
    return json.dumps([verdict.interesting, verdict.reason, plain]).encode()


def decode_verdict(answer: bytes | None) -> tuple[Verdict, ShownFinding | None]:
    """Decode the verdict that a separate process returned; see :func:`encode_verdict`.

    ``answer`` is None if the time limit passed, and invalid JSON if the process crashed.
    """
    if answer is None:
        return Verdict(False, "it did not end"), None
    try:
        interesting, reason, plain = json.loads(answer)
    except ValueError:
        return Verdict(False, "it crashed"), None
    shown = None if plain is None else from_plain(ShownFinding, plain)
    return Verdict(bool(interesting), str(reason)), shown


def _shows_finding(ended: ScriptOutcome) -> bool:
    return ended.status == 1 and LOOKED_FOR in ended.output


def _earlier_programs(history: list[str]) -> list[str]:
    """Return the programs of ``history`` to verify: the last, some earlier ones at equal distances,
    and the first.
    """
    found = [history[-1]]
    step = max(len(history) // (_BACKWARDS + 1), 1)
    found += history[-1 - step :: -step][: _BACKWARDS - 1]
    if history[0] not in found:
        found.append(history[0])
    return found


OTHER_SEEDS = (1, 2, 3)
"""Seeds with which a program is tested in addition to the usual seed 0."""

_CHOOSE = {"torch": "manual_seed", "random": "seed", "numpy": "random.seed"}
"""Function that sets the seed, for each module that draws random numbers."""


def seed_program(program: str, number: int) -> str:
    """Return the program with calls below its imports that seed all random generators."""
    tree = ast.parse(program)
    below = end_of_imports(tree)
    names = dict(
        (alias.name, alias.asname) if alias.asname else (alias.name.partition(".")[0],) * 2
        for node in tree.body[:below]
        if isinstance(node, ast.Import)
        for alias in node.names
    )
    chosen = [
        f"{names[module]}.{function}({number})"
        for module, function in _CHOOSE.items()
        if module in names
    ]
    tree.body[below:below] = ast.parse("\n".join(chosen)).body
    return format_tree(tree)
