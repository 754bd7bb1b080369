"""Checks of programs through the real command line with the real torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .conftest import ROOT, CommandLine, Ran

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(180)]

TRAIN = """\
import argparse

import torch


def double(x):
    return x * 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    fast = torch.compile(double, dynamic=False)
    for _ in range(given.steps):
        fast(torch.ones(2))
    assert given.name in ("", "two words")
"""
BREAKS = """\
import torch


@torch.compile
def double(x):
    print("doubling")
    return x * 2


double(torch.ones(2))
"""
RAISES = BREAKS.replace("@torch.compile", "@torch.compile(fullgraph=True)")

PYTHONPATH = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])

Check = Callable[..., Ran]


@pytest.fixture(scope="module")
def runtime() -> Iterator[str]:
    """The folder of the sockets of the engine that the tests of this module share."""
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="fg-") as folder:
        yield folder


@pytest.fixture
def check(command_line: CommandLine, runtime: str) -> Check:
    def run(*arguments: str, **options: Any) -> Ran:
        # One environment for all tests: an engine is shared only between commands of the same.
        env: dict[str, Any] = {
            "XDG_RUNTIME_DIR": runtime,
            "FULLGRAPH_ENGINE_KEEP": "60",
            "SCRIPTED_LOG": "",
        }
        first = ("check", "--python", sys.executable)
        return command_line.run(*first, *arguments, **env, **options)

    return run


@pytest.fixture(scope="module", autouse=True)
def ended_engine(runtime: str) -> Iterator[None]:
    """End the engine that the tests share."""
    yield
    env = {**os.environ, "XDG_RUNTIME_DIR": runtime, "PYTHONPATH": PYTHONPATH}
    stop = [sys.executable, "-m", "fullgraph", "engine", "stop"]
    stopped = subprocess.run(stop, env=env, capture_output=True, text=True, timeout=60)
    assert stopped.stdout.startswith(f"Stopped {sys.executable}"), stopped


def target(ran: Ran, name: str) -> dict[str, Any]:
    (file,) = json.loads(ran.out)["files"]
    (found,) = [one for one in file["targets"] if one["name"] == name]
    return dict(found)


# -- arguments ----------------------------------------------------------------------------------


def test_arguments_behind_two_dashes_are_those_of_the_program(
    command_line: CommandLine, check: Check
) -> None:
    command_line.write("train.py", TRAIN)
    ran = check("--format", "json", "--", "train.py", "--steps", "2", "--name", "two words")
    assert ran.status == 0, ran
    found = target(ran, "double")
    assert found["compiled"] is True
    assert found["region"] == {
        "program": "train.py",
        "api": "torch.compile",
        "options": {"dynamic": "False"},
        "calls": 2,
        "inlined": False,
        "site": {
            "path": "train.py",
            "range": {
                "start": {"line": 14, "character": 11},
                "end": {"line": 14, "character": 47},
            },
        },
    }


def test_a_program_without_its_arguments_exits(command_line: CommandLine, check: Check) -> None:
    command_line.write("train.py", TRAIN)
    ran = check("--format", "json", "train.py")
    assert ran.status == 2
    (finding,) = json.loads(ran.out)["files"][0]["findings"]
    assert (finding["code"], finding["severity"]) == ("program/exited", "hint")
    # The program compiles something only behind its arguments.
    assert all(one["region"] is None for one in json.loads(ran.out)["files"][0]["targets"])


def test_arguments_of_the_settings(command_line: CommandLine, check: Check) -> None:
    command_line.write("train.py", TRAIN)
    settings = '[tool.fullgraph]\nprogram-arguments = ["--steps", "3"]\n'
    command_line.write("pyproject.toml", settings)
    ran = check("--format", "json", "train.py")
    assert target(ran, "double")["region"]["calls"] == 3
    given = check("--format", "json", "--", "train.py", "--steps", "1")
    assert target(given, "double")["region"]["calls"] == 1


# -- results ------------------------------------------------------------------------------------


def test_the_summary_has_the_calls_and_the_options(command_line: CommandLine, check: Check) -> None:
    command_line.write("train.py", TRAIN)
    ran = check("-v", "--", "train.py", "--steps", "2")
    assert "in 2 calls" in ran.out and "dynamic=False" in ran.out


@pytest.mark.parametrize(
    ("text", "severity", "outcome"),
    [(BREAKS, "warning", "resumed"), (RAISES, "error", "raised")],
)
def test_a_break_that_raises_is_an_error(
    command_line: CommandLine, check: Check, text: str, severity: str, outcome: str
) -> None:
    command_line.write("train.py", text)
    ran = check("--format", "json", "train.py")
    (finding,) = json.loads(ran.out)["files"][0]["findings"]
    assert (finding["code"], finding["severity"]) == ("graph-break/GB0059", severity)
    errors = check("--exit-severity", "error", "train.py")
    assert (ran.status, errors.status) == (1, 1 if severity == "error" else 0)


def test_a_severity_that_was_chosen_is_kept(command_line: CommandLine, check: Check) -> None:
    command_line.write("train.py", RAISES)
    ran = check("--format", "json", "--severity", "graph-break=hint", "train.py")
    (finding,) = json.loads(ran.out)["files"][0]["findings"]
    assert (ran.status, finding["severity"]) == (0, "hint")


def test_without_program_runs_inputs_are_found_as_for_any_file(
    command_line: CommandLine, check: Check
) -> None:
    command_line.write("train.py", f"{BREAKS}import sys\nsys.exit(2)\n")
    program = check("--format", "json", "train.py")
    plain = check("--format", "json", "--no-program-run", "train.py")
    assert target(program, "double")["region"]["calls"] == 1
    found = target(plain, "double")
    assert (found["compiled"], found["region"]) == (None, None)
    assert found["probe"]["origin"] != "program"
    assert target(program, "double")["probe"]["origin"] == "program"


def test_a_file_shows_what_a_program_of_the_project_does_to_it(
    command_line: CommandLine, check: Check
) -> None:
    command_line.write("lib/model.py", BREAKS.partition("\n\n\ndouble")[0] + "\n")
    command_line.write(
        "train.py",
        "import torch\nfrom lib.model import double\n\n"
        'if __name__ == "__main__":\n    for _ in range(3):\n        double(torch.ones(2))\n',
    )
    ran = check("--format", "json", "lib/model.py")
    region = target(ran, "double")["region"]
    assert (region["program"], region["calls"]) == (str(command_line.folder / "train.py"), 3)
    assert region["site"]["path"] == "lib/model.py"
    both = json.loads(check("--format", "json", "lib/model.py", "train.py").out)["files"]
    codes = {file["path"]: [one["code"] for one in file["findings"]] for file in both}
    assert codes == {"lib/model.py": ["graph-break/GB0059"], "train.py": []}
