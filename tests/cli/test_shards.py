"""A check that is divided among machines, and the merged report."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, on, script, scripted_python

from fullgraph.cli.shard import Shard
from fullgraph_engine.protocol import (
    FilesRead,
    Finding,
    FindingFound,
    Fix,
    Frame,
    Position,
    Range,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TextEdit,
)
from fullgraph_engine.protocol.evidence import BreakEvidence

PLACE = on(3, 6, 9)
HEAD = "import torch\n\n\nclass Net(torch.nn.Module):\n    pass  # 名前\n"
NAMES = [*(f"m{number}.py" for number in range(5)), "plain.py", "zero.py"]
COUNT = 3


def model(number: int) -> str:
    """A file with one target and a finding of its own."""
    finding = Finding(
        "graph-break/GB0059",
        f"Break {number}.",
        PLACE,
        "Net",
        explanation="名前",
        hints=("A hint.",),
        fixes=(Fix("A fix", (TextEdit(Range(Position(3, 0), Position(3, 2)), "x"),)),),
        stack=(Frame("/lib/a.py", "f", 4, 4), Frame("/lib/b.py", "g", 4, 4, text="a = 1")),
        identity=f"break {number}",
        count=2,
        evidence=BreakEvidence("Unsupported call"),
    )
    report = TargetReport("Net", "module", PLACE, "traced", graphs=2, breaks=1, seconds=0.5)
    events = [
        TargetsFound(0, (TargetInfo("Net", "module", PLACE),), "A note."),
        FilesRead.from_files(0, ()),
        FindingFound(0, finding),
        FindingFound(0, replace(finding, message="Other.", identity="other", target="Net")),
        TargetDone(0, report),
    ]
    return HEAD + script(*events)  # type: ignore[arg-type]


@pytest.fixture
def tree(command_line: CommandLine) -> CommandLine:
    for number, name in enumerate(NAMES):
        command_line.write(f"src/{name}", model(number))
    command_line.write("src/plain.py", "x = 1\n")
    command_line.write("src/bad.py", b"\xff")
    return command_line


def write_shards(line: CommandLine, *numbers: int, options: tuple[str, ...] = ()) -> list[str]:
    """Check some of three shards, and return the names of their reports."""
    names = []
    for number in numbers:
        names.append(f"{number}.json")
        line.check(
            *("--format", "json", "--shard", f"{number}/{COUNT}", "--output", names[-1]),
            *options,
            "src",
            "gone.py",
        )
    return names


def without_times(report: str) -> str:
    return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0', report)


def test_each_file_is_in_one_shard_and_stays_there() -> None:
    shards = [Shard(number, 4) for number in (1, 2, 3, 4)]
    names = [f"package/module{number}.py" for number in range(400)]
    taken = [[name for name in names if shard.has(name)] for shard in shards]
    assert sorted(name for one in taken for name in one) == sorted(names)
    assert all(60 < len(one) < 140 for one in taken)
    # A later version must divide the files in the same way, to find their stored results.
    places = [next(one.number for one in shards if one.has(name)) for name in names[:8]]
    assert places == [3, 3, 4, 3, 2, 4, 2, 1]


@pytest.mark.parametrize("words", ["0/3", "4/3", "1", "a/b", "-1/3", "1/0", "1/3/5"])
def test_a_shard_that_does_not_exist(words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="NUMBER/COUNT"):
        Shard.parse(words)


def test_the_merged_report_is_the_report_of_one_check(tree: CommandLine) -> None:
    reports = write_shards(tree, 3, 1, 2)
    shown = {
        path
        for name in reports
        for path in (one["path"] for one in json.loads((tree.folder / name).read_text())["files"])
    }
    assert len(shown) == len(NAMES) + 1
    for form in ("json", "sarif", "github"):
        whole = tree.check("--format", form, "src", "gone.py")
        merged = tree.run("merge", "--format", form, *reports)
        assert without_times(merged.out) == without_times(whole.out), form
        assert (merged.status, merged.err) == (whole.status, whole.err) == (2, whole.err)
        output = tree.folder / f"merged.{form}"
        assert tree.run("merge", "--format", form, "-o", str(output), *reports).out == ""
        assert output.read_bytes().decode() == merged.out
    whole, merged = tree.check("src", "gone.py"), tree.run("merge", *reports)
    cut = re.compile(r", [0-9.]+ m?s\.$", re.MULTILINE)
    assert cut.sub("", merged.out) == cut.sub("", whole.out)


def test_baselines_are_merged_too(tree: CommandLine) -> None:
    tree.check("--baseline", "known.json", "--update-baseline", "src")
    known = json.loads((tree.folder / "known.json").read_text())
    gone = {"code": "graph-break/GB0025", "target": "Net", "text": "y", "message": "Gone."}
    known["files"]["src/m0.py"].append(gone)
    tree.write("known.json", json.dumps(known))
    options = ("--baseline", "known.json")
    reports = write_shards(tree, 1, 2, 3, options=options)
    whole = tree.check("--format", "json", *options, "src", "gone.py")
    merged = tree.run("merge", "--format", "json", *reports)
    assert without_times(merged.out) == without_times(whole.out)
    assert any(file.get("stale") for file in json.loads(whole.out)["files"])
    assert all("known" in file for file in json.loads(whole.out)["files"] if file["targets"])


def errors(line: CommandLine, *reports: str) -> Iterator[str]:
    ran = line.run("merge", "--format", "json", *reports)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("error: ") and ran.err.count("\n") == 1
    yield ran.err.removeprefix("error: ").rstrip()


def test_reports_that_do_not_belong_together(tree: CommandLine) -> None:
    one, two, three = write_shards(tree, 1, 2, 3)

    def error(*reports: str) -> str:
        return next(errors(tree, *reports))

    assert error(one, three) == "Shard 2/3 is missing; pass the reports of all shards."
    assert error(three) == "Shards 1/3 and 2/3 are missing; pass the reports of all shards."
    (tree.folder / "copy.json").write_text((tree.folder / two).read_text())
    assert error(one, two, three, "copy.json") == (
        "2.json and copy.json are both shard 2/3; pass one report of each shard."
    )
    tree.check("--format", "json", "--shard", "2/4", "-o", "four.json", "src", "gone.py")
    assert error(one, "four.json").startswith("four.json is one of 4 shards and 1.json one of 3;")
    tree.check("--format", "json", "-o", "whole.json", "src")
    assert error("whole.json").startswith("whole.json is not the report of a shard; write one")
    assert error("gone.json").startswith("Cannot read gone.json: No such file")
    (tree.folder / "src" / "m0.py").write_text("x = 1\n")
    write_shards(tree, 2)
    assert error(one, two, three).startswith("2.json reports other files than 1.json;")


def test_reports_with_other_settings_or_another_torch(tree: CommandLine, tmp_path: Path) -> None:
    write_shards(tree, 1, 3)
    write_shards(tree, 2, options=("--mode", "real"))
    (message,) = errors(tree, "1.json", "2.json", "3.json")
    assert message.startswith("2.json was written with other settings or options than 1.json;")
    other = scripted_python(tmp_path / "other-python", SCRIPTED_TORCH="2.12.0")
    write_shards(tree, 2, options=("--python", str(other)))
    (message,) = errors(tree, "1.json", "2.json", "3.json")
    assert message == (
        "2.json was written with torch 2.12.0 and 3.json with torch 2.13.0; use one version for "
        "all shards."
    )


def test_a_damaged_report_is_named(tree: CommandLine) -> None:
    write_shards(tree, 1, 2, 3)
    path = tree.folder / "2.json"
    document = json.loads(path.read_text())
    document["shard"]["state"] = document["shard"]["state"][:40]
    path.write_text(json.dumps(document))
    (message,) = errors(tree, "1.json", "2.json", "3.json")
    assert message.startswith("2.json is not the report of a shard")


def test_times_cannot_be_merged(tree: CommandLine) -> None:
    ran = tree.check("--shard", "1/2", "--measure", "src")
    assert ran.status == 2 and "leave out --measure" in ran.err
