"""An engine that stays for later commands, through the real command line with the real torch."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from .conftest import CommandLine

NET = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        print(x.shape)
        return x + 1

def get_inputs():
    return [torch.randn(4, 16)]
"""


@pytest.fixture
def variables(command_line: CommandLine) -> Iterator[dict[str, Any]]:
    """With which commands have an engine of the test; it ends with the test."""
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="fg-") as runtime:
        given: dict[str, Any] = {"XDG_RUNTIME_DIR": runtime, "FULLGRAPH_ENGINE_KEEP": "5"}
        try:
            yield given
        finally:
            for pid in pids(command_line.run("engine", "status", **given).out):
                psutil.Process(pid).terminate()
                psutil.Process(pid).wait(20)


def pids(status: str) -> list[int]:
    return [int(found) for found in re.findall(r"process (\d+)", status)]


@pytest.mark.slow
@pytest.mark.real_engine
def test_later_checks_use_the_engine_of_the_first(
    command_line: CommandLine, variables: dict[str, Any]
) -> None:
    command_line.write("model.py", NET)
    arguments = ("check", "--python", sys.executable, "--format", "github", "-v", "model.py")
    first = command_line.run(*arguments, **variables)
    assert first.status == 1 and "GB0059" in first.out, first
    (pid,) = pids(command_line.run("engine", **variables).out)
    assert psutil.Process(pid).is_running()
    # From another shell, in another folder.
    later = command_line.run(*arguments, **variables, SHLVL="3", OLDPWD="/", TERM="dumb")
    assert (later.status, later.out) == (first.status, first.out)
    alone = command_line.run(*arguments, **{**variables, "FULLGRAPH_ENGINE_KEEP": "0"})
    assert (alone.status, alone.out) == (first.status, first.out)
    assert "background engine cannot be used" not in first.err + later.err
    status = command_line.run("engine", "status", **variables)
    assert pids(status.out) == [pid]
    assert status.out.startswith(f"{sys.executable}: torch ")
    stopped = command_line.run("engine", "stop", **variables)
    assert stopped.out.startswith(f"Stopped {sys.executable}")
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], 20)
    assert not psutil.pid_exists(pid)
    status = command_line.run("engine", "status", **variables)
    assert status.out == "No engine is running in the background.\n"


def test_a_note_says_why_no_engine_is_kept(
    command_line: CommandLine, variables: dict[str, Any]
) -> None:
    command_line.write("model.py", "class Net(torch.nn.Module): ...\n")
    # The scripted engine's interpreter has no files of torch.
    ran = command_line.check("-v", "model.py", **variables)
    expected = (
        "note: The background engine cannot be used: The torch files of "
        f"{command_line.interpreter} were not found.\n"
    )
    assert expected in ran.err
    assert expected not in command_line.check("model.py", **variables).err
    quiet = {**variables, "FULLGRAPH_ENGINE_KEEP": "0"}
    assert expected not in command_line.check("-v", "model.py", **quiet).err


def test_no_engine_where_the_folder_is_not_private(command_line: CommandLine) -> None:
    with tempfile.TemporaryDirectory(prefix="fg-") as runtime:
        Path(runtime, "fullgraph").mkdir()
        Path(runtime, "fullgraph").chmod(0o755)
        ran = command_line.run("engine", XDG_RUNTIME_DIR=runtime, TMPDIR=runtime)
        # The second choice, the temporary folder, is this user's.
        assert (ran.status, ran.out) == (0, "No engine is running in the background.\n")
        assert [one.name[:10] for one in Path(runtime).iterdir() if one.name != "fullgraph"] == [
            "fullgraph-"
        ]
