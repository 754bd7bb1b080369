"""First lines of findings: at most 100 characters, in every output."""

from __future__ import annotations

import pytest

from fullgraph.domain.codes import CODES, Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.domain.wording import MOST, explanation, message_lines, same_cause_lines
from fullgraph.render.checked import CheckedFile
from fullgraph.render.github import file_github
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph_engine.protocol import Finding, Position, Range
from fullgraph_engine.protocol.evidence import BreakEvidence

PLACE = Range(Position(0, 0), Position(0, 5))
TEXT = TextPositions("first()\n")
LONG = "The code raises here: ValueError: " + "`an operand` does not fit and " * 9


def finding(message: str, code: str = "trace/eager-error") -> Finding:
    return Finding(code, message, PLACE)


@pytest.mark.parametrize("code", [code.name for code in CODES])
def test_the_first_line_of_every_kind_of_finding_is_short_everywhere(code: str) -> None:
    item = FileFinding(finding(LONG, code), Severity.WARNING, (), "")
    first, whole = message_lines(item.finding)
    assert len(first) <= MOST and whole == LONG.strip()
    place = FindingFile("a.py", "/a.py", TEXT)
    head, *_ = finding_text(item, place).split("\n")
    assert head == f"warning[{code}]: {first}"
    command = file_github(CheckedFile("a.py", "/a.py", TEXT, findings=(item,)))
    assert command.partition("::")[2].partition("::")[2].split("%0A")[:2] == [first, whole]


def test_a_long_line_is_cut_between_words_and_not_in_code() -> None:
    line, _ = message_lines(finding("It raises " + "x" * 60 + " `some long code with spaces here`"))
    assert line == "It raises " + "x" * 60 + " …"
    assert message_lines(finding("short")) == ["short"]
    (first, *_) = message_lines(finding("`" + "y" * 200 + "`"))
    assert len(first) <= MOST


def test_a_break_of_the_same_cause_is_short_too() -> None:
    (line,) = same_cause_lines(finding("Graph break: `.item()` reads a tensor; keep it"), 11)
    assert line == "Same cause as line 12: `.item()` reads a tensor; keep it"


def test_the_words_of_dynamo_are_named_as_such_and_come_last() -> None:
    item = Finding(
        "graph-break/GB0124",
        "Graph break: `.item()` reads a tensor's value; keep the value in a tensor",
        PLACE,
        explanation="Dynamo does not support it.",
        evidence=BreakEvidence("Unsupported Tensor.item() call.", "raised", "fullgraph=True"),
    )
    assert (
        explanation(item) == "Dynamo: Unsupported Tensor.item() call. Dynamo does not support it."
    )
    text = finding_text(
        FileFinding(item, Severity.ERROR, (), ""), FindingFile("a.py", "/a.py", TEXT)
    )
    assert text.index("The graph break is an error under `fullgraph=True`.") < text.index(
        "Dynamo: Unsupported"
    )
