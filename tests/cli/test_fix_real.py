"""``fullgraph fix`` with torch: what is offered, and what is refused."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from tests.cli.conftest import CommandLine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

EXPORTED = """\
import torch


def few(x, mask):
    rows = x[mask]
    # too many
    if rows.shape[0] > 100:
        rows = rows[:100]
    return rows.sum()


def some(x, n):
    k = n.item()
    if k > 2:
        return x * 2
    return x


def parts(x, n):
    a, b = n.tolist()
    return x.split([a, b])[0]


if __name__ == "__main__":
    few(torch.rand(8, 4), torch.rand(8) > 0.3)
    some(torch.rand(8, 4), torch.tensor(3))
    parts(torch.rand(8, 4), torch.tensor([3, 5]))
"""


def test_checks_for_export(command_line: CommandLine) -> None:
    command_line.write("model.py", EXPORTED)
    flags = ["--python", sys.executable, "--export", "--unsafe", "--diff", "--color", "never"]
    ran = command_line.run("fix", *flags, "model.py")
    added = [line[1:].strip() for line in ran.out.splitlines() if line.startswith("+")]
    # The check that holds for all inputs that were tried; of the others, one does not, and the
    # last would allow only the sizes of the probe.
    assert [line for line in added if "torch._check" in line] == [
        "torch._check(rows.shape[0] <= 100)"
    ]
    title = "State what always holds by `torch._check(rows.shape[0] <= 100)`"
    assert f"{title} (unsafe; the finding is gone, bitwise the same in " in ran.err
    offered = [line.strip() for line in ran.err.splitlines() if "by hand: State" in line]
    assert [line.partition(" (")[0] for line in offered] == [
        "suggestion, by hand: State what always holds by `torch._check(k > 2)`"
    ]
    assert "Inputs that were tried do not satisfy the check." in ran.err
