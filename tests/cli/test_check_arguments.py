"""The command line of a usual check is read in two ways, which must be one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fullgraph.cli import app
from fullgraph.cli.check_arguments import read_arguments
from fullgraph.cli.check_command import CheckJob


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CheckJob, Mapping[str, Any]]]:
    """What the library makes of command lines."""
    seen: list[tuple[CheckJob, Mapping[str, Any]]] = []

    def run(job: CheckJob, flags: Mapping[str, Any]) -> int:
        seen.append((job, {name: value for name, value in flags.items() if value is not None}))
        return 0

    monkeypatch.setattr(CheckJob, "run", run)
    return seen


@pytest.mark.parametrize(
    "line",
    [
        "a.py",
        "a.py src/ a.py -",
        "-q a.py --verbose --forecast",
        "--quiet a.py -v",
        "--python python3 a.py",
        "--python venv/bin/python a.py",
        "--python=venv/bin/python a.py",
        "--format json --color never a.py",
        "--format=github a.py --color=always",
        "--mode fake --exit-severity off --timeout 3 a.py",
        "-j 3 a.py --memory-limit 512 --max-targets=4",
        "--jobs 3 --engine-processes spawn --engine-keep 0 --probes-from-file off a.py",
        "--select graph-break,guard --select trace --ignore probe/missing a.py",
        "--severity graph-break=error --severity=guard=off --exclude vendor a.py",
        "--mode fake --mode fake a.py",
        "--no-cache a.py --try-paths --no-export --no-cache",
        "--cache --no-try-dynamic --export --probes-from-tests a.py --no-try-paths",
    ],
)
def test_both_read_the_same(line: str, jobs: list[tuple[CheckJob, Mapping[str, Any]]]) -> None:
    read = read_arguments(line.split())
    assert app.main(["check", *line.split()]) == 0
    assert read is not None
    assert [(read.job, read.flags)] == jobs


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "-h a.py",
        "-q",
        "a.py --mode",
        "a.py --mode -q",
        "a.py --mode=",
        "a.py --quiet=yes",
        "a.py --unknown",
        "a.py -qv",
        "a.py -j3",
        "a.py -j=3",
        "a.py --format yaml",
        "a.py --color blue",
        "a.py --mode fake --mode real",
        "a.py --measure",
        "a.py --baseline known.json",
        "a.py --no-try-paths --try-paths",
        "a.py --no-mode",
        "-- a.py",
    ],
)
def test_what_is_left_to_the_library(line: str) -> None:
    assert read_arguments(line.split()) is None


def test_an_empty_path_is_left_to_the_library() -> None:
    assert read_arguments(["a.py", ""]) is None


def test_a_usual_check_does_not_load_what_it_does_not_need(tmp_path: Path) -> None:
    """Each of these takes longer than all the rest."""
    (tmp_path / "empty.py").touch()
    code = (
        "import sys; from fullgraph.cli import main; main(['check', '-q', 'empty.py']); "
        "print(sorted({'typer', 'pydantic', 'libcst', 'rich', 'torch', 'pygls'} & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"
