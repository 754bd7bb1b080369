"""From a realistic file with one thing wrong in it to a small script that shows the same thing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import planted
import reproducing

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

SECONDS = 120.0
LINES = 25
"""Far above what is reached with time: the check alone has eight."""

NAMES = (
    "boxes_that_are_kept",  # in a helper of another file
    "gradient_switched_on",  # only with the statement before it and what is returned
    "length_of_lazy",  # for what the caller passes
    "message_of_wrong_width",  # the code raises by itself
    "operator_without_tag",
    "queue_of_states",  # a method of an object, inside of with
    "recompiled_by_number",
    "recurrent_between",  # a layer of torch, in a package
    "specialised_in_loop",
)


@pytest.fixture(scope="module")
def host() -> Iterator[reproducing.Host]:
    host = reproducing.Host()
    yield host
    host.close()


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
    assert made.found.lines <= LINES, made.found.script
    script = tmp_path / "script.py"
    script.write_text(made.found.script, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 1, ended.stderr
    assert "Looked for " in ended.stdout


def test_every_case_can_be_planted() -> None:
    cases = planted.cases()
    assert len(cases) >= 60
    for case in cases:
        assert case.lines >= 100
        for path, text in case.files.items():
            compile(text, path, "exec")
