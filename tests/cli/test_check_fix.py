"""``fullgraph check --fix``: unused ignore comments and entries of the baseline are removed, and no
other byte of the files changes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, on, script

from fullgraph.cli.baseline_trim import BaselineTrim
from fullgraph.cli.sources import UnreadableFile
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.render.checked import CheckedFile
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.coverage import Coverage

COVERAGE = Coverage.from_ranges([on(2, 4, 9), on(3, 4, 9)], [])
REPORT = TargetReport("f", "function", on(1, 4, 5), "traced", coverage=COVERAGE)
TRACED = script(TargetsFound(0, (TargetInfo("f", "function", on(1, 4, 5)),)), TargetDone(0, REPORT))
LATE = script(
    TargetsFound(0, (TargetInfo("f", "function", on(1, 4, 5)),)),
    TargetDone(0, dataclasses.replace(REPORT, status="timeout")),
)
USED = script(FindingFound(0, Finding("graph-break/GB0059", "It prints.", on(3, 4, 9), "f")))
BEFORE = """\
# coding: latin-1
def f(x):
    a = 1  # fullgraph: ignore[GB0059]
    print(x)  # fullgraph: ignore[GB0070, GB0059]  # \xfc
"""
AFTER = """\
# coding: latin-1
def f(x):
    a = 1
    print(x)  # fullgraph: ignore[GB0059]  # \xfc
"""


def test_comments_are_removed_and_no_other_byte_changes(command_line: CommandLine) -> None:
    events = (TRACED + USED).rstrip("\n")

    def encode_model(text: str) -> bytes:
        return (text + events).replace("\n", "\r\n").encode("latin-1")

    path = command_line.write("model.py", encode_model(BEFORE))
    path.chmod(0o640)
    ran = command_line.check("--format", "json", "model.py")
    assert path.read_bytes() == encode_model(BEFORE)
    (file,) = json.loads(ran.out)["files"]
    found = [(finding["code"], finding["range"]["start"]["line"]) for finding in file["findings"]]
    assert found == [("ignore/unused", 2), ("ignore/unused", 3)]
    assert ran.status == 0

    ran = command_line.check("--fix", "model.py")
    assert path.read_bytes() == encode_model(AFTER)
    assert path.stat().st_mode & 0o777 == 0o640
    assert ran.status == 0 and "No findings" in ran.out
    assert ran.err.splitlines() == [
        "note: model.py:3: removed `# fullgraph: ignore[GB0059]`.",
        "note: model.py:4: changed `# fullgraph: ignore[GB0070, GB0059]` to "
        "`# fullgraph: ignore[GB0059]`.",
    ]
    assert command_line.check("--fix", "model.py").err == ""


def test_a_user_can_let_unused_comments_fail_a_check(command_line: CommandLine) -> None:
    command_line.write("model.py", (BEFORE + TRACED).encode("latin-1"))
    assert command_line.check("--exit-severity", "hint", "model.py").status == 1
    assert command_line.check("--severity", "ignore=warning", "model.py").status == 1


def test_comments_stay_if_the_trace_was_late_or_the_file_is_read_only(
    command_line: CommandLine,
) -> None:
    late = command_line.write("late.py", (BEFORE + LATE).encode("latin-1"))
    protected = command_line.write("protected.py", (BEFORE + TRACED).encode("latin-1"))
    protected.chmod(0o440)
    before = late.read_bytes(), protected.read_bytes()
    ran = command_line.check("--fix", "late.py", "protected.py")
    assert (late.read_bytes(), protected.read_bytes()) == before
    assert ran.status == 2
    assert "protected.py could not be written: Permission denied" in ran.err + ran.out
    assert "removed" not in ran.err


def test_standard_input_is_not_fixed(command_line: CommandLine) -> None:
    ran = command_line.check("--fix", "-")
    assert ran.status == 2 and "fullgraph cannot write to standard input" in ran.err


# -- the baseline -------------------------------------------------------------------------------


def entry(code: str, text: str, target: str = "f", **more: str) -> str:
    plain = {"code": code, "target": target, "text": text, "message": "m", **more}
    return json.dumps(plain, ensure_ascii=False)


ALLOWED = '{"code": "guard", "allow": 3}'
PRINTS = entry("graph-break/GB0025", "print(x)")
OPENS = entry("graph-break/GB0025", "open(x)", reason="é")
SIZES = entry("recompile/size", "x + y")


def baseline(*entries: str, rest: str = '"other.py": []') -> str:
    """A baseline of a user with a formatting of its own."""
    lines = ",\r\n   ".join(entries)
    return f'{{ "baseline": 1,\r\n  "files": {{"model.py": [\r\n   {lines} ], {rest} }}}}'


def trim_baseline(folder: Path, text: str, *printed: str, **changes: object) -> str:
    path = folder / "known.json"
    path.write_bytes(text.encode())
    source = "\n".join(printed)
    findings = tuple(
        FileFinding(
            Finding("graph-break/GB0025", "m", on(number, 0, len(line)), "f"),
            Severity.WARNING,
            ("f",),
            "",
        )
        for number, line in enumerate(printed)
    )
    file = CheckedFile(
        str(folder / "model.py"),
        str(folder / "model.py"),
        TextPositions(source),
        targets=(REPORT,),
        findings=findings,
        conclusive=frozenset({"graph-break"}),
    )
    file = dataclasses.replace(file, **changes)  # type: ignore[arg-type]
    trim = BaselineTrim(path)
    settled = trim.settle(file)
    assert settled.findings == ()
    remarks = trim.write()
    assert bool(remarks) is (path.read_bytes() != text.encode())
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((PRINTS,), (PRINTS,), id="nothing is stale"),
        pytest.param((PRINTS, OPENS), (PRINTS,), id="the last one"),
        pytest.param((OPENS, PRINTS), (PRINTS,), id="the first one"),
        pytest.param((OPENS, OPENS, PRINTS, OPENS), (PRINTS,), id="several"),
        pytest.param((ALLOWED, OPENS, PRINTS), (ALLOWED, PRINTS), id="beside an allowance"),
        pytest.param((PRINTS, SIZES), (PRINTS, SIZES), id="not looked for"),
    ],
)
def test_stale_entries_are_removed_from_the_text(
    before: tuple[str, ...], after: tuple[str, ...], tmp_path: Path
) -> None:
    other = '"other.py": [' + OPENS + "]"
    found = trim_baseline(tmp_path, baseline(*before, rest=other), "print(x)")
    assert found == baseline(*after, rest=other)


def test_a_file_without_entries_is_removed_from_the_baseline(tmp_path: Path) -> None:
    other = '"other.py": [' + OPENS + "]"
    start = '{ "baseline": 1,\r\n  "files": {'
    assert trim_baseline(tmp_path, baseline(OPENS, rest=other)) == f"{start}{other} }}}}"
    alone = f'{start}"model.py": [{OPENS}]\n}}}}\n'
    assert trim_baseline(tmp_path, alone) == f"{start}}}}}\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"conclusive": frozenset()},
        {"conclusive": frozenset({"recompile"})},
        {"problem": "It was not read."},
        {"targets": (dataclasses.replace(REPORT, status="timeout"),)},
    ],
)
def test_entries_stay_if_the_trace_does_not_decide_them(
    changes: dict[str, object], tmp_path: Path
) -> None:
    assert trim_baseline(tmp_path, baseline(OPENS), **changes) == baseline(OPENS)


def test_entries_go_with_the_last_target_of_a_file(tmp_path: Path) -> None:
    text = f'{{"baseline": 1, "files": {{"model.py": [{OPENS}]}}}}'
    nothing = {"targets": (), "conclusive": frozenset()}
    assert trim_baseline(tmp_path, text, **nothing) == '{"baseline": 1, "files": {}}'


def test_a_baseline_that_changes_during_the_check_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(baseline(OPENS, rest=f'"b.py": [{OPENS}]'))
    trim = BaselineTrim(path)
    trim.settle(CheckedFile(str(tmp_path / "model.py"), "", TextPositions("")))
    path.write_text(baseline(OPENS, PRINTS, rest=f'"b.py": [{OPENS}]'))
    with pytest.raises(UnreadableFile, match="was changed during the check"):
        trim.write()


def test_the_command_trims_the_baseline_of_the_settings(command_line: CommandLine) -> None:
    command_line.write("model.py", (AFTER + TRACED + USED).encode("latin-1"))
    command_line.write("pyproject.toml", '[tool.fullgraph]\nbaseline = "known.json"\n')
    known = f'{{"baseline": 1, "files": {{"model.py": [{OPENS}]}}}}'
    path = command_line.write("known.json", known)
    ran = command_line.check("--fix", "model.py")
    assert ran.status == 0 and "gone" not in ran.out
    assert path.read_text() == '{"baseline": 1, "files": {}}'
    assert "removed graph-break/GB0025 of model.py (`open(x)`), which no longer" in ran.err
