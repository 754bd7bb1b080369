"""The tools for coding agents with torch: from a finding to a verified edit."""

from __future__ import annotations

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import psutil
import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from agents import Project, agent_in_process, make_notebook, make_project  # noqa: E402
from tests.benchmarks.agent_rewrites import read_pairs, verify_pair  # noqa: E402
from tests.engine.behavior_pairs import Pair  # noqa: E402

from fullgraph.mcp.diffs import apply_diff  # noqa: E402

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

GATE = """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    # fullgraph: init(dim=16) f32[4, 16]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.lin(x)
        if y.sum() > 0:
            y = y.relu()
        else:
            y = y.sigmoid()
        return y * 2
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = make_project(tmp_path)
    made.interpreter = Path(sys.executable)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.folder)
    made.write("gate.py", GATE)
    return made


@pytest.mark.slow
async def test_graph_break_is_found_fixed_and_the_fix_verified(project: Project) -> None:
    async with agent_in_process(project) as agent:
        checked = await agent.call("check", file="gate.py")
        (finding,) = checked["findings"]
        explained = await agent.call("explain", file="gate.py", finding=finding["id"])
        safe = await agent.call("fix", file="gate.py", finding=finding["id"], hash=checked["hash"])
        fixed = await agent.call("fix", file="gate.py", unsafe=True, hash=checked["hash"])
        verified = await agent.call("verify", file="gate.py", diff=fixed["diff"])
        after = apply_diff(GATE, fixed["diff"])
        graph = await agent.call("graph", file="gate.py", text=after, hash=fixed["fixed_hash"])
        wrong = await agent.call("verify", file="gate.py", changed=GATE.replace("* 2", "* 3"))
    assert finding["code"] == "graph-break/GB0170"
    assert finding["at"] == "gate.py:13:12"
    assert [frame["at"] for frame in explained["stack"]] == ["gate.py:13:12"]
    assert any(value.startswith("y.sum() : f32[]") for value in explained["values"])
    assert "diff" not in safe and safe["alternatives"][0]["grade"] == "unsafe"
    assert verified["changed_hash"] == fixed["fixed_hash"]
    assert [one["change"] for one in verified["findings"]] == ["gone"]
    (behavior,) = verified["behavior"]
    assert (behavior["outcome"], behavior["compiled"]) == ("same", "same")
    assert "torch.where" in graph["text"] and "1 graph" in graph["text"]
    assert wrong["behavior"][0]["outcome"] == "differs"


def processes_with(file: str) -> list[psutil.Process]:
    """The processes below this one that have opened a file."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(Path(one.path).name == file for one in process.open_files()):
                found.append(process)
    return found


async def test_cancelled_call_ends_the_process_that_executes_the_code(project: Project) -> None:
    project.write("slow.py", GATE + "import time\nfile = open(__file__)\ntime.sleep(1000)\n")
    async with agent_in_process(project) as agent:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel_when_executed() -> None:
                    with anyio.fail_after(60):
                        while not processes_with("slow.py"):
                            await anyio.sleep(0.05)
                    scope.cancel()

                tasks.start_soon(cancel_when_executed)
                await agent.call("check", file="slow.py")
        with anyio.fail_after(60):
            while processes_with("slow.py"):
                await anyio.sleep(0.05)
            assert (await agent.call("check", file="gate.py"))["findings"]


@pytest.mark.slow
async def test_operator_has_its_schema_and_fake_kernel(project: Project) -> None:
    async with agent_in_process(project) as agent:
        answer = await agent.call("operator", name="torch.nonzero")
    assert "aten::nonzero(Tensor self) -> Tensor" in answer["text"]
    assert "dynamic output shape" in answer["text"]


@pytest.mark.slow
async def test_fix_of_a_notebook_is_a_diff_of_its_cells(project: Project) -> None:
    project.write("gate.ipynb", make_notebook("%time", GATE))
    async with agent_in_process(project) as agent:
        fixed = await agent.call("fix", file="gate.ipynb", unsafe=True)
        verified = await agent.call("verify", file="gate.ipynb", diff=fixed["diff"])
    assert fixed["diff"].startswith("--- a/gate.ipynb:cell 2\n+++ b/gate.ipynb:cell 2\n@@ -")
    assert verified["changed_hash"] == fixed["fixed_hash"]
    assert [one["change"] for one in verified["findings"]] == ["gone"]


QUICK = ("a length", "a constant that other modules import")
SAMPLE = (*QUICK, "one of two functions", "another default value", "another method of the class")
"""Rewrites of ``tests/fixtures/rewrites``; ``tests.benchmarks.agent_rewrites`` runs all of them."""


@pytest.mark.parametrize(
    ("pair", "is_right"),
    [
        pytest.param(
            pair, right, id=pair.name, marks=() if pair.name in QUICK else (pytest.mark.slow,)
        )
        for pair, right in read_pairs()
        if pair.name in SAMPLE
    ],
)
async def test_verify_accepts_only_right_rewrites(
    project: Project, pair: Pair, is_right: bool
) -> None:
    async with agent_in_process(project) as agent:
        answer = await verify_pair(agent, pair)
    assert ("are the same" in answer["verdict"]) == is_right, answer
