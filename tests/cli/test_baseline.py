"""``fullgraph check --baseline``: only what an earlier report does not have."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, on, script

from fullgraph.cli.baseline import Baseline
from fullgraph.cli.sources import UnreadableFile
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.json import check_json
from fullgraph_engine.protocol import Finding, FindingFound

BREAK = Finding("graph-break/GB0025", "Failed to trace builtin operator", on(1, 4, 12), "f")


def checked(text: str, path: str = "model.py") -> CheckedFile:
    """A break at each line that prints, in the function around it."""
    findings = []
    target = ""
    for number, line in enumerate(text.splitlines()):
        target = line[4:-1] if line.startswith("def") else target
        if "print" in line:
            place = on(number, line.index("print"), line.index(")") + 1)
            finding = Finding("graph-break/GB0025", "It prints.", place, target)
            findings.append(FileFinding(finding, Severity.WARNING, (target,), ""))
    return CheckedFile(path, f"/p/{path}", TextPositions(text), findings=tuple(findings))


def new_lines(before: CheckedFile | None, now: CheckedFile, folder: Path) -> list[int]:
    report = folder / "baseline.json"
    report.write_text(check_json(CheckResults((before,) if before is not None else ())))
    settled = Baseline.read(report).hide_known(now)
    assert settled.known == len(now.findings) - len(settled.findings)
    return [item.finding.range.start.line for item in settled.findings]


ONE = "def f:\n    print(x)\n"


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        pytest.param(ONE, ONE, [], id="the same"),
        pytest.param(ONE, "import a\n\n" + ONE, [], id="moved"),
        pytest.param(ONE, "def f:\n  if y:\n    print(x)\n", [], id="indented"),
        pytest.param(ONE, "def f:\n    print(x, y)\n", [], id="edited"),
        pytest.param(
            ONE, "def f:\n  print(y)\n  print(x)  # why\n", [1], id="with a comment, and one more"
        ),
        pytest.param(ONE, "def g:\n    print(x)\n", [], id="in a function of another name"),
        pytest.param(ONE, "def g:\n    print(y)\n", [1], id="in another function"),
        pytest.param(ONE, "def f:\n    print(y)\n    print(x)\n", [1], id="one more before it"),
        pytest.param(ONE, "def f:\n    print(x)\n    print(x)\n", [2], id="the same once more"),
        pytest.param(
            ONE,
            "def f:\n    pass\n    print(x)\n    print(x)\n",
            [2, 3],
            id="moved, and the same once more: nobody knows which is new",
        ),
        pytest.param(ONE + "    print(y)\n", ONE, [], id="one less"),
        pytest.param("", ONE, [1], id="the first one"),
    ],
)
def test_what_is_new(before: str, now: str, new: list[int], tmp_path: Path) -> None:
    assert new_lines(checked(before), checked(now), tmp_path) == new


def test_a_report_may_have_whole_paths_in_its_messages(tmp_path: Path) -> None:
    def failing(path: str) -> CheckedFile:
        file = checked(ONE)
        (item,) = file.findings
        finding = dataclasses.replace(item.finding, message=f"It fails in {path}.")
        return dataclasses.replace(file, findings=(dataclasses.replace(item, finding=finding),))

    before = failing("/v/lib/python3.11/site-packages/torch/nn/functional.py")
    assert new_lines(before, failing("torch/nn/functional.py"), tmp_path) == []
    assert new_lines(before, failing("torch/functional.py"), tmp_path) == [1]


def test_a_file_that_the_report_does_not_have(tmp_path: Path) -> None:
    assert new_lines(None, checked(ONE), tmp_path) == [1]
    assert new_lines(checked(ONE, "other.py"), checked(ONE), tmp_path) == [1]
    assert new_lines(checked(ONE, "./model.py"), checked(ONE), tmp_path) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not a report of fullgraph"),
        ("[1]", "is not a report of fullgraph"),
        ('{"version": 1, "files": [{"path": "a.py"}]}', "is not a report of fullgraph"),
        ('{"version": 2, "files": []}', "reports of version 2"),
    ],
)
def test_what_is_no_report(content: str, words: str, tmp_path: Path) -> None:
    report = tmp_path / "baseline.json"
    report.write_text(content)
    with pytest.raises(UnreadableFile, match=words):
        Baseline.read(report)


def test_a_check_against_its_own_report_and_with_one_more(command_line: CommandLine) -> None:
    more = Finding("graph-break/GB0059", "It asks for an item.", on(0, 0, 6), "f")
    model = "import torch\nclass Net: print(x)\n"
    command_line.write("model.py", model + script(FindingFound(0, BREAK)))
    first = command_line.check("--format", "json", "--output", "known.json", "model.py")
    assert first.status == 1
    again = command_line.check("--baseline", "known.json", "model.py")
    assert again.status == 0, again.err
    assert "GB0025" not in again.out
    assert "No new findings; " in again.out and "1 finding of the baseline not shown" in again.out

    model = model.replace("print(x)", "print(x), x")
    command_line.write("model.py", model + script(*(FindingFound(0, one) for one in (BREAK, more))))
    found = command_line.check("--baseline", "known.json", "--format", "json", "model.py")
    assert found.status == 1
    (file,) = json.loads(found.out)["files"]
    assert [finding["code"] for finding in file["findings"]] == ["graph-break/GB0059"]
    assert file["known"] == 1


def test_a_baseline_that_is_not_there_or_would_be_overwritten(command_line: CommandLine) -> None:
    command_line.write("model.py", "import torch\n")
    missing = command_line.check("--baseline", "known.json", "model.py")
    assert (missing.status, missing.out) == (2, "")
    assert missing.err == "error: Cannot read known.json: No such file or directory.\n"
    known = command_line.write("known.json", '{"version": 1, "files": []}')
    same = command_line.check("--baseline", "known.json", "--output", "./known.json", "model.py")
    assert same.status == 2 and "would keep only what is new" in " ".join(same.err.split())
    assert known.read_text() == '{"version": 1, "files": []}'


def test_a_baseline_may_have_the_former_name_of_a_code(tmp_path: Path) -> None:
    found = Finding("guard/specialised-dimension", "`x` is specialized to 8", on(1, 4, 9), "f")
    text = TextPositions(ONE)

    def report(finding: Finding) -> CheckedFile:
        item = FileFinding(finding, Severity.WARNING, ("f",), "")
        return CheckedFile("model.py", "/p/model.py", text, findings=(item,))

    renamed = dataclasses.replace(found, code="guard/specialized-dimension")
    assert new_lines(report(found), report(renamed), tmp_path) == []
    other = dataclasses.replace(found, code="guard/limited-dimension")
    assert new_lines(report(found), report(other), tmp_path) == [1]
