"""Reports and recorded inputs, which options of pytest write for a whole session."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from projects import FORKS, Project

from fullgraph.cli.check_report import CheckReport
from fullgraph_engine.protocol.recorded import parse

pytestmark = pytest.mark.real_engine

TESTS = """
def test_passes(fullgraph):
    fullgraph.check(Net(), x)


@pytest.mark.parametrize("calls", [1, 2])
def test_fails(fullgraph, calls):
    fullgraph.check(Net(speaks=True), x, calls=calls)


@pytest.mark.fullgraph
def test_marked():
    torch.compile(Counter(), backend="eager")(x)


def test_other():
    pass
"""


def test_a_json_report_has_findings_once_and_all_tests(project: Project) -> None:
    project.write_tests(TESTS)
    assert "Wrote the findings of 4 checks to out.json." in (
        project.run("--fullgraph-report", "out.json").output
    )
    path = project.folder / "out.json"
    report = CheckReport.read(path)
    (file,) = report.files
    (finding,) = [one for one in file.findings if one.code.startswith("graph-break/")]
    assert file.path == "test_it.py" and finding.text == 'print("forward")'
    assert finding.count >= 2 and report.torch
    tests = {one["test"]: one for one in json.loads(path.read_text())["tests"]}
    assert list(tests) == [
        f"test_it.py::{name}"
        for name in ("test_fails[1]", "test_fails[2]", "test_marked", "test_passes")
    ]
    assert tests["test_it.py::test_passes"]["failure"] is None
    failed = tests["test_it.py::test_fails[1]"]
    assert failed["failure"].startswith("Expected no graph breaks, found 1:")
    assert failed["findings"][0]["code"] == finding.code


def test_a_sarif_report_has_the_place(project: Project) -> None:
    project.write_tests(TESTS)
    project.run("--fullgraph-report", "out.sarif")
    (run,) = json.loads((project.folder / "out.sarif").read_text())["runs"]
    results = [one for one in run["results"] if one["ruleId"].startswith("graph-break/")]
    (place,) = [one["locations"][0]["physicalLocation"] for one in results]
    assert place["artifactLocation"] == {"uri": "test_it.py"}
    line = (project.folder / "test_it.py").read_text().splitlines()
    assert "print(" in line[place["region"]["startLine"] - 1]


def test_a_junit_report_has_a_case_for_each_check(project: Project) -> None:
    project.write_tests(TESTS)
    project.run("--fullgraph-report", "out.xml")
    suite = ElementTree.parse(project.folder / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    cases = {case.get("name"): case for case in suite}
    failure = cases["test_fails[2]"].find("failure")
    assert failure is not None and failure.text is not None
    assert 'print("forward")' in failure.text and cases["test_passes"].find("failure") is None


def test_a_report_with_another_ending_is_refused(project: Project) -> None:
    project.write_tests(TESTS)
    output = project.run("--fullgraph-report", "out.html").output
    assert "--fullgraph-report out.html: the name of the file must end in .json" in output


MODEL = """
import torch
from torch import nn


class Recorded(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 4)

    def forward(self, x):
        print("recorded")
        return self.layer(x)
"""
RECORDED = """
import torch
from model import Recorded


def test_recorded(fullgraph):
    checked = fullgraph.check(Recorded(3), torch.randn(2, 3), breaks=1)
    assert len(checked.places) == 1
    checked.places[0].rendered.index('--> model.py:12:9')


def test_other():
    Recorded(5)(torch.randn(2, 5))
"""


@pytest.mark.parametrize("processes", ["one", "forks", "workers"])
def test_inputs_are_recorded(project: Project, processes: str) -> None:
    project.write("model.py", MODEL)
    imports = "import model  # before the tests\n"
    project.write("conftest.py", imports + (FORKS if processes == "forks" else ""))
    project.write("test_it.py", RECORDED)
    options = ["-n", "2"] if processes == "workers" else []
    session = project.run_process("--fullgraph-record", *options)
    assert session.outcomes == {"test_recorded": "PASSED", "test_other": "PASSED"}, session.output
    assert "Recorded in " in session.output and "1 call of 1 classes." in session.output
    recorded = parse((project.folder / "fullgraph.probes.json").read_text())
    ((name, (found,)),) = recorded.items()
    assert (name, found.name) == ("model.py", "Recorded")
    assert found.calls[0].forward in ("f32[2, 3]", "f32[2, 5]")


def test_a_recording_that_cannot_be_extended_is_reported_at_the_start(project: Project) -> None:
    project.write("test_it.py", "def test_one():\n    pass\n")
    project.write("fullgraph.probes.json", "<<<<<<< ours\n{}\n")
    session = project.run_process("--fullgraph-record")
    assert "--fullgraph-record: " in session.output and not session.outcomes
