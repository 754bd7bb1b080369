"""The time budget of a repro holds however slow its programs are, and the best so far is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fullgraph_engine.protocol import Finding, Position, Range, Reproduced, ReproFound
from fullgraph_engine.protocol.evidence import BreakEvidence
from fullgraph_engine.repro.candidate import Candidates, ReproCandidate
from fullgraph_engine.repro.job import GRACE, MinimizationJob, Surroundings
from fullgraph_engine.repro.reduce import minimize
from fullgraph_engine.repro.verify.check import LOOKED_FOR, ScriptCheck
from fullgraph_engine.repro.verify.finding_signature import FindingSignature
from fullgraph_engine.repro.verify.fresh_python import ScriptOutcome
from fullgraph_engine.repro.verify.oracle import ShownFinding, Verdict

NOWHERE = Range(Position(0, 0), Position(0, 1))
BREAK = Finding("graph-break/GB0059", "m", NOWHERE, evidence=BreakEvidence("Failed to trace it"))
SHOWN = ShownFinding(FindingSignature.from_finding(BREAK), raises=False)
PROGRAM = "import torch\n\na = 1\nb = 2\nc = 3\nd = 4\ntorch.compile(f)(a, b, c, d)\n"
SECONDS = 3.0


class SlowTrials:
    """Each takes a while, one after the other; those that go on at ``until`` give nothing."""

    capacity = 1

    def __init__(self, until: float, cost: float, shows: Callable[[str], bool]) -> None:
        self.until, self.cost, self.shows = until, cost, shows
        self.texts: list[str] = []

    def submit(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts)

    def wait(self) -> tuple[int, bytes | None]:
        left = max(self.until - time.monotonic(), 0.0)
        time.sleep(min(left, self.cost))
        if left < self.cost:
            return len(self.texts), None
        shows = self.shows(self.texts[-1])
        return len(self.texts), minimize.encode_verdict(Verdict(shows), SHOWN if shows else None)

    def kill(self, number: int) -> None:
        pass


class Fresh:
    """Verifies the first program that it is given, and never ends with another."""

    started: list[Fresh]

    def __init__(self, scratch: str, forking: Callable[[bool], None]) -> None:
        self.number, self.ended = len(Fresh.started), False
        Fresh.started.append(self)

    def begin(self, path: str) -> None:
        assert Path(path).is_file()

    def wait(self, seconds: float) -> ScriptOutcome | None:
        if self.number == 0:
            self.ended = True
            return ScriptOutcome(1, f"{LOOKED_FOR}it")
        time.sleep(seconds)
        return None

    def end(self) -> ScriptOutcome:
        self.ended = True
        return ScriptOutcome(None, "")


def minimized(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
    cost: float,
    shows: Callable[[str, float], bool],
) -> tuple[list[Any], list[str], float]:
    """What is said, which programs were tried, and in how many seconds all was over. ``shows`` is
    given a program and the seconds since the beginning."""
    Fresh.started = []
    monkeypatch.setattr(minimize, "FreshPython", Fresh)
    began = time.monotonic()
    tried: list[str] = []
    said: list[Any] = []

    def trials(judge: object, seconds: float, until: float) -> SlowTrials:
        made = SlowTrials(until, cost, lambda text: shows(text, time.monotonic() - began))
        made.texts = tried
        return made

    candidates = Candidates(
        tuple(ReproCandidate(program, "statement") for program in programs),
        SHOWN.signature,
        ScriptCheck.for_finding(BREAK),
        (),
        "title",
        "",
        "model.py:3",
    )
    around = Surroundings(trials, lambda _: None, str(folder))
    job = MinimizationJob(1, "", began, SECONDS)
    minimize.ProgramMinimizer(candidates, job, around, said.append).run()
    assert all(one.ended for one in Fresh.started)
    return said, tried, time.monotonic() - began


def test_what_is_verified_meanwhile_is_kept_where_no_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shows(text: str, since: float) -> bool:
        # Half of the time is gone after a second.
        return text == PROGRAM or (since > 1.5 and "torch.compile(f)(a, b" in text)

    said, _, took = minimized(tmp_path, monkeypatch, (PROGRAM,), 0.12, shows)
    assert took < SECONDS + GRACE + 0.5
    scripts = [one for one in said if isinstance(one, ReproFound)]
    last, end = scripts[-1], said[-1]
    assert isinstance(end, Reproduced)
    assert (end.verified, end.reason, last.verified) == (True, "", True)
    assert [one.verified for one in scripts[:2]] == [False, True]
    assert "d = 4" in last.script
    assert last.notes == ("A smaller script may show the finding too, but none was verified.",)


def test_programs_that_do_not_end_are_left_when_the_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tuple(f"import torch\n\nf({number})\n" for number in range(30))
    said, tried, took = minimized(tmp_path, monkeypatch, programs, 0.12, lambda text, since: False)
    end = said[-1]
    assert isinstance(end, Reproduced)
    assert not end.verified
    assert end.reason.startswith("No script that shows the finding was found within")
    assert took < SECONDS
    # Most of the time from the smallest on, then from the largest down as well.
    order = [programs.index(text) for text in tried]
    first = order.index(29)
    large, small = order[first::2], order[first + 1 :: 2]
    assert order[:first] + small == list(range(first + len(small)))
    assert large == list(range(29, 29 - len(large), -1))
    assert first >= 2 and small and len(order) < 30
