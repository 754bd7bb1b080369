"""What of torch was proven to be visible, and how long that holds."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fullgraph_engine.host import proofs
from fullgraph_engine.protocol.facts import Degraded

NOT_SEEN = Degraded("guards", "a test program did not show a guard")


class Stub:
    """Is killed the first few times that it is to prove something."""

    def __init__(self, folder: Path, kills: int) -> None:
        self.times, self.kills = folder / "times", kills

    def missing_facts(self) -> tuple[Degraded, ...]:
        return ()

    def prove_facts(self) -> tuple[Degraded, ...]:
        with self.times.open("a") as file:
            file.write("x")
        if self.proven <= self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return (NOT_SEEN,)

    def build_key(self) -> str:
        return "a build"

    @property
    def proven(self) -> int:
        return len(self.times.read_text())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_build_is_proven_once(tmp_path: Path) -> None:
    stub = Stub(tmp_path, kills=0)
    for _ in range(2):
        assert proofs.degraded_facts(stub, forks=True) == (NOT_SEEN,)
    assert stub.proven == 1


def test_a_process_that_was_killed_is_made_once_more(tmp_path: Path) -> None:
    stub = Stub(tmp_path, kills=1)
    assert proofs.degraded_facts(stub, forks=True) == (NOT_SEEN,)
    assert stub.proven == 2


def test_what_crashes_again_is_not_kept(tmp_path: Path) -> None:
    stub = Stub(tmp_path, kills=2)
    (found,) = proofs.degraded_facts(stub, forks=True)
    assert found.fact == "graphs" and "Killed" in found.reason
    assert proofs.degraded_facts(stub, forks=True) == (NOT_SEEN,)
    assert stub.proven == 3
