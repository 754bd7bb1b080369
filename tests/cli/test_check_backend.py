"""``fullgraph check --backend`` with torch: findings of compilers, compile times, a time limit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(180), pytest.mark.slow]

MODEL = """\
import torch


# fullgraph: f32[4, 4]
def values(x):
    print(x.shape)
    return torch.linalg.eigvals(x.exp() * 2).real
"""

ENDLESS = """

@torch.library.custom_op("endless::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale.register_fake
def _(x):
    # Inductor makes fake tensors as well, but Dynamo must finish.
    if "torch._inductor.graph" in __import__("sys").modules:
        while True:
            pass
    return torch.empty_like(x)


# fullgraph: f32[4]
def scaled(x):
    print(x.shape)
    return scale(x)
"""


@pytest.fixture
def real(command_line: CommandLine) -> CommandLine:
    command_line.interpreter = Path(sys.executable)
    return command_line


def test_findings_of_the_compiler_come_with_those_of_dynamo(real: CommandLine) -> None:
    (real.folder / "model.py").write_text(MODEL)
    options = ("--python", sys.executable, "--backend", "inductor", "--exit-severity", "off")
    ran = real.run("check", *options, "--format", "json", "model.py")
    (file,) = json.loads(ran.out)["files"]
    codes = {one["code"]: one["range"]["start"]["line"] for one in file["findings"]}
    assert codes["graph-break/GB0059"] == 5
    assert codes["backend/fallback"] == 6
    (target,) = file["targets"]
    compilation = target["compilation"]
    assert (compilation["compiler"], compilation["status"]) == ("inductor", "compiled")
    assert all(one["aot"] > 0 and one["function"] == "values" for one in compilation["regions"])
    assert len(compilation["regions"]) == target["graphs"]


def test_a_compiler_that_does_not_end_loses_no_finding_of_the_trace(real: CommandLine) -> None:
    (real.folder / "model.py").write_text("import torch\n" + ENDLESS)
    options = ("--python", sys.executable, "--backend", "inductor", "--exit-severity", "off")
    ran = real.run("check", *options, "--backend-timeout", "8", "--format", "json", "model.py")
    (file,) = json.loads(ran.out)["files"]
    found = {one["code"]: one["message"] for one in file["findings"]}
    assert "graph-break/GB0059" in found
    assert (
        "did not finish compiling `scaled`: it did not end within 8 seconds"
        in found["backend/incomplete"]
    )
    (target,) = file["targets"]
    assert (target["status"], target["compilation"]["status"]) == ("traced", "not-computed")


CHOSEN = """\
import torch
import torch.nn.functional as F

torch._dynamo.config.capture_dynamic_output_shape_ops = True


# fullgraph: f32[20]
def convolve_chosen(x):
    chosen = x[x > 0]
    return F.conv1d(chosen.view(1, 1, -1), torch.ones(1, 1, 3)).sum()
"""


def test_an_error_of_the_compiler_has_a_repro(real: CommandLine) -> None:
    (real.folder / "model.py").write_text(CHOSEN)
    options = ("--python", sys.executable, "-o", "-", "--time-budget", "120")
    process = real.start("repro", *options, "--code", "backend/error", "model.py:10")
    out, err = process.communicate(timeout=160)
    assert process.returncode == 0, err
    script = out.decode()
    assert "conv1d" in script
    assert "GuardOnDataDependentSymNode" in script
    assert 'torch.compile(f, backend="inductor")' in script
