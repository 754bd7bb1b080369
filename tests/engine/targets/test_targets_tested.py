"""Probes from tests of the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.host.test_host_torch import started_engine

from fullgraph_engine.targets import tested
from fullgraph_engine.targets.workspace import tests_that_import as files_that_import

NET = """\
import torch

class Part(torch.nn.Module):
    def forward(self, x):
        assert x.shape[1] == 24, "odd"
        return x + 1

class Net(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.width = spec["deep"]["width"]
        self.part = Part()

    def forward(self, x, kind):
        if kind != "known":
            raise ValueError(kind)
        return self.part(x) * self.width
"""

TESTS = """\
import pytest
import torch
from pkg.net import Net

@pytest.fixture
def spec():
    return {"deep": {"width": 24}}

def test_that_raises(spec):
    with pytest.raises(ValueError):
        Net(spec)(torch.ones(2, 24), "unknown")

@pytest.mark.parametrize("rows", [5])
def test_forward(spec, rows, tmp_path):
    assert Net(spec)(torch.ones(rows, 24), "known").shape == (rows, 24)

class TestOther:
    def test_nothing(self):
        assert True
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--no-such-option'\n",
        "conftest.py": "",
        "pkg/__init__.py": "",
        "pkg/net.py": NET,
        "tests/test_net.py": TESTS,
        "tests/test_another.py": "import pkg.other\n",
        "tests/helpers.py": "import pkg.net\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_of_tests_that_import_a_file(project: Path) -> None:
    (found, text) = files_that_import(str(project / "pkg" / "net.py"))[0]
    assert (found, text) == (project / "tests" / "test_net.py", TESTS)
    package = files_that_import(str(project / "pkg" / "__init__.py"))
    assert [file.name for file, _ in package] == ["test_another.py", "test_net.py"]
    assert not files_that_import(str(project / "tests" / "helpers.py"))


def test_those_that_mention_it_or_all_of_the_file() -> None:
    assert tested.mentioning_tests(TESTS, ["Net"]) == ["test_that_raises", "test_forward"]
    set_up = TESTS.replace('{"deep": {"width": 24}}', "Deep()")
    everything = ["test_that_raises", "test_forward", "TestOther::test_nothing"]
    assert tested.mentioning_tests(set_up, ["Deep"]) == everything
    assert not tested.mentioning_tests(TESTS, ["Nothing"])
    assert not tested.mentioning_tests("def", ["Net"])


@pytest.mark.slow
def test_a_class_is_traced_as_tests_call_it(project: Path) -> None:
    with started_engine("fork") as engine:
        path = str(project / "pkg" / "net.py")
        reports, findings = engine.analyze(NET, path, examples=("test",))
    assert {name: report.status for name, report in reports.items()} == {
        "Net": "traced",
        "Part": "traced",
    }
    assert {finding.code for finding in findings} == {"guard/value"}
    net, part = reports["Net"].probe, reports["Part"].probe
    assert net is not None and part is not None
    assert (net.inputs, net.source) == ("f32[5, 24], 'known'", "as called by test_net.py")
    assert part.source == "as called by Net.forward, line 17, in test_net.py"
