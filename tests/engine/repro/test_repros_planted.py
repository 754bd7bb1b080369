"""From a realistic file with one thing wrong in it to a small script that shows the same thing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import planted
import reproducing

from fullgraph.domain import codes
from fullgraph.session.repro import is_reproducible
from fullgraph_engine.protocol import Finding, Position, Range, RunId

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

SECONDS = 120.0
LINES = 25
"""Far above what is reached with time: the check alone has eight."""

NAMES = (
    "boxes_that_are_kept",  # in a helper of another file
    "counted_calls",  # told of a second call
    "gradient_switched_on",  # only with the statement before it and what is returned
    "operator_without_tag",
    "recompiled_by_layer",  # one function of several objects
    "recurrent_between",  # a layer of torch, in a package
    "streamed_returns",  # a generator
)
"""One of each kind; ``make bench-repros`` makes scripts for all that is planted."""


@pytest.fixture(scope="module")
def host() -> Iterator[reproducing.Host]:
    host = reproducing.Host()
    yield host
    host.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_script_shows_what_the_file_does(
    host: reproducing.Host, tmp_path: Path, name: str
) -> None:
    case = planted.cases(name)[0]
    path = case.write(tmp_path / "case")
    finding = planted.expected(host.findings, case, path)
    made = host.reproduce(path, finding, SECONDS)
    assert made.found is not None, made.reason + made.log
    assert made.verified, made.found.output
    assert '/repro.py"' not in made.found.output
    assert made.found.lines <= LINES, made.found.script
    script = tmp_path / "script.py"
    script.write_text(made.found.script, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 1, ended.stderr
    assert "Looked for " in ended.stdout


SOMETIMES = """\
import itertools
import torch

LOOKS = itertools.count()


# fullgraph: f32[4]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.loud = next(LOOKS) >= %d

    def forward(self, x):
        if self.loud:
            print(x.shape)
        return x
"""


def sometimes(host: reproducing.Host, folder: Path, first: int) -> reproducing.Reproduction:
    """Of a break that is there from the given look on."""
    path = folder / "model.py"
    path.write_text(SOMETIMES % first, encoding="utf-8")
    where = Range(Position(14, 12), Position(14, 26))
    finding = Finding("graph-break/GB0059", "", where, target="Net", run=RunId("Net"))
    return host.reproduce(path, finding, SECONDS)


@pytest.mark.slow
def test_a_finding_that_is_not_always_there_is_told_with_its_odds(
    host: reproducing.Host, tmp_path: Path
) -> None:
    made = sometimes(host, tmp_path, first=2)
    assert made.found is not None, made.reason + made.log
    assert made.verified, made.found.output
    header = " ".join(made.found.script.split())
    assert "It is flaky: only 4 of 6 runs found it again." in header


def test_a_finding_that_is_not_there_any_more_has_no_script(
    host: reproducing.Host, tmp_path: Path
) -> None:
    made = sometimes(host, tmp_path, first=99)
    assert made.found is None
    assert "was not found again at line 15 in 6 runs" in made.reason


def test_there_is_a_case_of_every_kind_that_a_repro_is_offered_for() -> None:
    offered = {code.name for code in codes.CODES if is_reproducible(code.name)}
    kinds = {name for name in offered if not any(other.startswith(f"{name}/") for other in offered)}
    shown = {case.code for case in planted.cases()}
    # Only a trace with a compiler has errors of it: tests/cli/test_check_backend.py shows a repro.
    assert {
        kind for kind in kinds if not any(codes.matches_selector(code, kind) for code in shown)
    } == {"backend/error"}
    assert {code for code in shown if not is_reproducible(code)} == {"trace/eager-error"}


def test_every_case_can_be_planted() -> None:
    cases = planted.cases()
    assert len(cases) >= 60
    for case in cases:
        assert case.lines >= 100
        for path, text in case.files.items():
            compile(text, path, "exec")
