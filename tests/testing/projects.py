"""Projects whose tests pytest runs, in a fork of this process or in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NET = """\
import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, speaks=False):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.speaks = speaks

    def forward(self, x):
        y = self.layer(x)
        if self.speaks:
            print("forward")
        return y.relu()


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


x = torch.ones(2, 4)
"""
"""Beginning of a test file: a module that may print, and one that recompiles in each call."""


FORKS = """
import json
import os

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    hook, config = item.config.hook, item.config
    reader, writer = os.pipe()
    if not os.fork():
        reports = [
            hook.pytest_report_to_serializable(config=config, report=report)
            for report in runtestprotocol(item, log=False)
        ]
        with os.fdopen(writer, "w") as file:
            json.dump(reports, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        for plain in json.load(file):
            report = hook.pytest_report_from_serializable(config=config, data=plain)
            item.ihook.pytest_runtest_logreport(report=report)
    os.wait()
    return True
"""
"""Part of a conftest.py that runs each test in a fork, as pytest-forked does."""


@dataclass
class Session:
    """What one run of pytest printed, and how its tests ended."""

    output: str

    @property
    def outcomes(self) -> dict[str, str]:
        """Outcome of each test by its name with parameters, such as "PASSED"."""
        found = re.findall(
            r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL) \S+?::(\S+)", self.output, re.MULTILINE
        )
        return {name: outcome for outcome, name in found}

    def section(self, test: str) -> str:
        """Return the text that pytest printed about one failed test."""
        found = re.search(
            rf"^_+ (?:ERROR at \w+ of )?{re.escape(test)} _+$\n(.*?)(?=^[_=]{{3,}})",
            self.output,
            re.MULTILINE | re.DOTALL,
        )
        assert found is not None, self.output
        return found[1]


class Project:
    """A folder with tests, and pytest runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def write_tests(self, tests: str, name: str = "test_it.py") -> Path:
        """Write a test file that begins with ``NET``."""
        return self.write(name, f"{NET}\n\n{textwrap.dedent(tests)}")

    def run(self, *options: str) -> Session:
        """Run pytest in a fork of this process, which has imported torch."""

        output = self.folder / ".output"
        process = os.fork()
        if not process:
            self._run_here(output, options)
        os.waitpid(process, 0)
        return Session(output.read_text())

    def _run_here(self, output: Path, options: tuple[str, ...]) -> None:
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115
        try:
            os.chdir(self.folder)
            sys.path.insert(0, str(self.folder))
            os.environ.pop("PYTEST_XDIST_WORKER", None)
            pytest.main([*_OPTIONS, "-p", "no:xdist", "-p", "no:timeout", *options, "."])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)

    def run_process(self, *options: str) -> Session:
        """Run pytest in a process of its own."""
        paths = [str(ROOT / "engine"), str(ROOT / "server"), str(self.folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *_OPTIONS, *options, "."],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=170,
        )
        return Session(done.stdout + done.stderr)


# The tests name the plugin themselves, whether it is installed or not.
_OPTIONS = (
    *("-p", "no:cacheprovider", "-p", "no:fullgraph", "-p", "fullgraph.testing.plugin"),
    *("--show-capture=no", "--override-ini=asyncio_mode=auto", "-rA", "--rootdir=."),
)
