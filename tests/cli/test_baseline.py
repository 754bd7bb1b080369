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
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)

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
    settled = Baseline.read(report).settle(now)
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
    assert "No new findings; " in again.out and "1 finding hidden by the baseline" in again.out

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
    assert same.status == 2 and "would be overwritten with only the new findings" in " ".join(
        same.err.split()
    )
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


# -- files that --update-baseline writes --------------------------------------------------------

MODEL = "import torch\nclass Net: print(x)\n"
ITEM = Finding("graph-break/GB0059", "It asks for an item.", on(1, 4, 9), "Net")
PRINT = Finding("graph-break/GB0025", "It prints.", on(1, 11, 19), "Net")


def traced_net(*findings: Finding) -> str:
    report = TargetReport("Net", "module", on(1, 6, 9), "traced")
    found = TargetsFound(0, (TargetInfo("Net", "module", report.range),))
    return script(found, *(FindingFound(0, one) for one in findings), TargetDone(0, report))


def update(command_line: CommandLine, *paths: str) -> str:
    ran = command_line.check("--update-baseline", "--baseline", "known.json", *paths)
    assert ran.status == 0, ran.err
    return ran.err


def entries(command_line: CommandLine, path: str = "model.py") -> list[dict[str, object]]:
    document = json.loads((command_line.folder / "known.json").read_text())
    return list(document["files"].get(path, []))


def test_a_project_adopts_the_check_in_one_command(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM, PRINT))
    assert "known.json accepts 2 findings in 1 file: 2 added, 0 removed." in update(
        command_line, "model.py"
    )
    assert entries(command_line) == [
        {"code": PRINT.code, "target": "Net", "text": "print(x)", "message": "It prints."},
        {"code": ITEM.code, "target": "Net", "text": "s Net", "message": "It asks for an item."},
    ]
    command_line.write("pyproject.toml", "[tool.fullgraph]\nbaseline = 'known.json'\n")
    ran = command_line.check("model.py")
    assert ran.status == 0 and "2 findings hidden by the baseline" in ran.out


def test_entries_of_other_files_and_what_people_wrote_stay(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM, PRINT))
    command_line.write("other.py", MODEL + traced_net(ITEM))
    command_line.write("gone.py", MODEL + traced_net(ITEM))
    update(command_line, ".")
    (command_line.folder / "gone.py").unlink()
    known = command_line.folder / "known.json"
    document = json.loads(known.read_text())
    document["files"]["model.py"][1] |= {"reason": "needed for logs", "until": "2999-01-01"}
    known.write_text(json.dumps(document))
    command_line.write("model.py", MODEL.replace("print", "x, print") + traced_net(ITEM))
    assert "2 findings in 2 files: 0 added, 2 removed." in update(command_line, "model.py")
    assert [entry.get("reason") for entry in entries(command_line)] == ["needed for logs"]
    assert entries(command_line)[0]["until"] == "2999-01-01"
    assert len(entries(command_line, "other.py")) == 1


def test_findings_that_are_gone_are_counted(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM, PRINT))
    update(command_line, "model.py")
    command_line.write("model.py", MODEL.replace("print", "x, print") + traced_net(ITEM))
    ran = command_line.check("--baseline", "known.json", "model.py")
    assert ran.status == 0
    assert "1 finding of the baseline no longer found (remove with --update-baseline)" in ran.out


def test_a_target_that_was_not_traced_keeps_its_entries(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM))
    update(command_line, "model.py")
    late = TargetDone(0, TargetReport("Net", "module", on(1, 6, 9), "timeout"))
    command_line.write("model.py", MODEL.replace("print", "x, print") + script(late))
    ran = command_line.check("--baseline", "known.json", "model.py")
    assert "of the baseline no longer found" not in ran.out
    update(command_line, "model.py")
    assert [entry["code"] for entry in entries(command_line)] == [ITEM.code]


def test_after_its_date_a_finding_is_shown_again(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM))
    update(command_line, "model.py")
    known = command_line.folder / "known.json"
    known.write_text(known.read_text().replace('"text"', '"until": "2001-01-01", "text"'))
    ran = command_line.check("--baseline", "known.json", "model.py")
    assert ran.status == 1 and "GB0059" in ran.out


@pytest.mark.parametrize(("most", "target", "status"), [(2, "Net", 0), (1, "Net", 1), (2, "f", 1)])
def test_an_allowance_accepts_a_number_of_findings(
    command_line: CommandLine, most: int, target: str, status: int
) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM, PRINT))
    allowance = {"code": "graph-break", "target": target, "allow": most}
    command_line.write(
        "known.json", json.dumps({"baseline": 1, "files": {"model.py": [allowance]}})
    )
    ran = command_line.check("--baseline", "known.json", "model.py")
    assert ran.status == status
    update(command_line, "model.py")
    assert entries(command_line)[0] == allowance
    assert len(entries(command_line)) == (1 if status == 0 else 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('<<<<<<< HEAD\n{"baseline": 1}\n', "has conflict markers of git"),
        ('{"baseline": 9, "files": {}}', "has version 9 of the baseline format"),
        ('{"baseline": 1, "files": {"model.py": [{"code": "x"}]}}', "lacks the key 'message'"),
        ('{"baseline": 1, "files": []}', "correct or remove the entry"),
    ],
)
@pytest.mark.parametrize("flag", [(), ("--update-baseline",)])
def test_a_baseline_that_cannot_be_read_stays(
    command_line: CommandLine, content: str, words: str, flag: tuple[str, ...]
) -> None:
    command_line.write("model.py", MODEL + traced_net(ITEM))
    command_line.write("known.json", content)
    ran = command_line.check("--baseline", "known.json", *flag, "model.py")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("error: ") == 1 and words in ran.err
    assert (command_line.folder / "known.json").read_text() == content


def test_a_baseline_to_update_needs_a_name(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL)
    ran = command_line.check("--update-baseline", "model.py")
    assert ran.status == 2 and "name one, for example with --baseline" in ran.err
