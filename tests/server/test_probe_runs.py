"""Which of a probe and the code below it is told to be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport
from fullgraph.session.probe_runs import place_probe_findings
from fullgraph_engine.protocol import (
    Finding,
    Position,
    ProbeInfo,
    Range,
    Related,
    RunId,
    TargetReport,
)

TEXT = """\
# fullgraph: f32[4, 5]
class Net(nn.Module):
    def forward(self, x):
        return self.up(x)
"""
NAME = Range(Position(1, 6), Position(1, 9))
LINE = Range(Position(3, 15), Position(3, 25))
SAID = Range(Position(0, 13), Position(0, 22))
WORDS = "The code raises here, with or without torch.compile: RuntimeError: mat1"
RAISES = Finding("trace/eager-error", WORDS, LINE, "Net", run=RunId("Net"), identity="raises")


def all_placed(findings: list[Finding], comment: str) -> tuple[Finding, ...]:
    probe = ProbeInfo("comment", "f32[4, 5]", source="line 1", comment=comment)
    report = TargetReport("Net", "module", NAME, "failed", probe=probe)
    runs = [ShownReport(report, current=True)]
    return place_probe_findings(findings, runs, TextPositions(TEXT), "model.py")


def placed(finding: Finding, comment: str) -> Finding:
    (found,) = all_placed([finding], comment)
    return found


def test_code_that_raises_with_all_inputs_is_wrong_itself() -> None:
    assert placed(RAISES, "") == RAISES


def test_inputs_are_wrong_where_others_fit() -> None:
    found = placed(RAISES, "f32[4, 4]")
    assert (found.code, found.range) == ("probe/invalid", SAID)
    assert found.message == "These inputs do not fit: RuntimeError: mat1"
    assert found.related == (Related("model.py", LINE, "raised here"),)
    (fix,) = found.fixes
    assert fix.title == "Change the probe to: f32[4, 4]"
    assert [(edit.range, edit.text) for edit in fix.edits] == [(SAID, "f32[4, 4]")]


def test_what_is_said_of_a_probe_stays_where_it_is() -> None:
    word = Range(Position(0, 13), Position(0, 16))
    invalid = replace(RAISES, code="probe/invalid", message="No such dtype.", range=word)
    found = placed(invalid, "f32[4, 4]")
    assert (found.message, found.range) == ("No such dtype.", word)
    assert [fix.title for fix in found.fixes] == ["Change the probe to: f32[4, 4]"]
    assert placed(invalid, "") == invalid


@pytest.mark.parametrize(("comment", "left"), [("f32[4, 4]", 1), ("", 2)])
def test_the_graph_breaks_where_inputs_raise_that_do_not_fit(comment: str, left: int) -> None:
    broken = replace(RAISES, code="graph-break/GB0088", identity="break")
    assert len(all_placed([broken, RAISES], comment)) == left


@pytest.mark.parametrize("code", ["trace/compile-error", "graph-break/GB0059"])
def test_what_dynamo_does_is_no_matter_of_the_inputs(code: str) -> None:
    other = replace(RAISES, code=code)
    assert placed(other, "f32[4, 4]") == other
