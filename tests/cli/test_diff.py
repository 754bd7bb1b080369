"""``fullgraph diff``: two interpreters, two revisions, two reports."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, git, on, script, scripted_python

from fullgraph.cli.check_report import (
    CheckReport,
    ReportedFile,
    ReportedFinding,
    ReportedTarget,
)
from fullgraph.cli.diff.difference import (
    CheckDifference,
    FindingDifference,
    MissingCount,
    compare_checks,
)
from fullgraph.cli.diff.markdown import MARK, difference_markdown
from fullgraph.cli.diff.text import difference_text
from fullgraph.domain.codes import Severity
from fullgraph.render.markdown import inline_code
from fullgraph_engine.protocol import (
    Failed,
    Finding,
    FindingFound,
    ProbeInfo,
    TargetDone,
    TargetReport,
)
from fullgraph_engine.protocol.recorded import FILE, RecordedCall, RecordedClass, written

# -- the model --------------------------------------------------------------------------------


def found(
    message: str = "It prints.",
    line: int = 4,
    *,
    name: str = "graph-break/GB0025",
    target: str = "f",
    targets: tuple[str, ...] = (),
    text: str = "print(x)",
    severity: Severity = Severity.WARNING,
    count: int = 1,
) -> ReportedFinding:
    reached = targets or ((target,) if target else ())
    return ReportedFinding(name, severity, message, target, reached, line, 4, text, count, "")


def ran(name: str = "f", status: str = "traced", **facts: Any) -> ReportedTarget:
    numbers: dict[str, Any] = {"graphs": 2, "ops": 9, "breaks": 1, "skips": 0, "recompiles": 0}
    run = ReportedTarget(name, 1, status, "fake", "f32[4]", "", **numbers)
    return dataclasses.replace(run, **facts)


def report(
    *items: ReportedFinding | ReportedTarget,
    path: str = "model.py",
    notes: tuple[str, ...] = (),
    problem: str = "",
) -> CheckReport:
    file = ReportedFile(
        path,
        tuple(item for item in items if isinstance(item, ReportedTarget)),
        tuple(item for item in items if isinstance(item, ReportedFinding)),
        notes,
        problem,
        known=0,
    )
    return CheckReport((file,), "2.13.0", "3.11.7")


def compare(old: CheckReport, new: CheckReport) -> CheckDifference:
    return compare_checks(old, new, ("old", "new"))


def findings(difference: CheckDifference) -> list[FindingDifference]:
    return [one for _, target in difference.each_target() for one in target.findings]


def kinds(old: CheckReport, new: CheckReport) -> list[tuple[str, int]]:
    return [(one.kind, one.shown.line) for one in findings(compare(old, new))]


SYNTAX = found("The file does not parse: oh", 0, name="trace/syntax-error", target="", text="")
RAISES = found("It raises.", 7, name="trace/eager-error", severity=Severity.ERROR, text="raise")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([found()], [found(line=9)], [], id="moved"),
        pytest.param([found()], [found(text="print(y)", line=9)], [], id="edited"),
        pytest.param([found()], [found(), found(line=5)], [("new", 5)], id="one more"),
        pytest.param(
            [found(line=4)], [found(line=6), found(line=7)], [("new", 7)], id="moved, and one more"
        ),
        pytest.param([found(), found(line=5)], [found()], [("gone", 5)], id="one less"),
        pytest.param([found()], [found("It writes.")], [("changed", 4)], id="other words"),
        pytest.param([found()], [found("It writes.", 9)], [("changed", 9)], id="moved, too"),
        pytest.param([found()], [found(count=3)], [("changed", 4)], id="reached more often"),
        pytest.param(
            [found()], [found(name="graph-break/GB0100")], [("changed", 4)], id="another id"
        ),
        pytest.param(
            [found()],
            [found(name="graph-break/GB0100", text="print(y)")],
            [("gone", 4), ("new", 4)],
            id="another break, in other code",
        ),
        pytest.param(
            [found(name="guard/value")],
            [found(name="guard/mutated")],
            [("gone", 4), ("new", 4)],
            id="another kind of guard",
        ),
    ],
)
def test_what_becomes_of_findings(
    old: list[ReportedFinding], new: list[ReportedFinding], expected: list[tuple[str, int]]
) -> None:
    assert kinds(report(ran(), *old), report(ran(), *new)) == expected


def test_what_a_side_did_not_compute_is_unknown() -> None:
    failed = ran(status="failed", error="ValueError: no")
    lost = compare(report(ran(), found()), report(failed, RAISES))
    assert [(one.kind, one.shown.code) for one in findings(lost)] == [
        ("unknown", "graph-break/GB0025"),
        ("new", "trace/eager-error"),
    ]
    unknown = findings(lost)[0].uncomputed
    assert unknown is not None
    assert (unknown.side, unknown.reason) == ("new", "failed: ValueError: no")
    assert (lost.uncompared, lost.untraced) == (1, 0)

    gained = compare(report(failed, RAISES), report(ran(), found()))
    assert [one.kind for one in findings(gained)] == ["unknown", "gone"]
    assert gained.reaches(Severity.WARNING) and not gained.reaches(Severity.ERROR)


def test_a_target_that_is_not_traced_anymore_is_never_clean() -> None:
    # The findings about failures may be ignored.
    for status in ("failed", "timeout", "crashed", "no-probe"):
        lost = compare(report(ran()), report(ran(status=status)))
        assert lost.reaches(Severity.ERROR) and not lost.reaches(Severity.OFF)
        assert difference_text(lost).startswith("1 target no longer traced; 1 target, 1 differs")
    assert not compare(report(ran()), CheckReport(())).reaches(Severity.HINT)


def test_a_target_that_fails_on_both_sides() -> None:
    failed = ran(status="failed", error="ValueError: no")
    same = compare(report(failed, RAISES), report(failed, RAISES))
    assert (same.files, same.untraced, same.uncompared) == ((), 1, 0)
    other = found("It raises something else.", 8, name="trace/compile-error", text="f()")
    changed = compare(report(failed, RAISES), report(failed, other))
    assert [one.kind for one in findings(changed)] == ["changed"]


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (report(SYNTAX), "The file does not parse: oh"),
        (report(problem="model.py could not be traced."), "model.py could not be traced."),
        (report(ran("g"), notes=("Too many targets.",)), "Too many targets."),
        (
            dataclasses.replace(report(path="other.py"), problems=("The engine died.",)),
            "The engine died.",
        ),
    ],
    ids=["syntax error", "not traced", "too many targets", "the engine died before it"],
)
def test_a_target_that_is_missing_for_a_reason_is_not_gone(new: CheckReport, reason: str) -> None:
    unknown = compare(report(ran(), found()), new)
    (run,) = [run for _, t in unknown.each_target() for run in t.runs if run.shown.name == "f"]
    assert run.kind == "unknown" and run.uncomputed is not None
    assert (run.uncomputed.side, run.uncomputed.reason) == ("new", reason)
    assert "gone" not in [one.kind for one in findings(unknown)]
    assert unknown.reaches(Severity.WARNING)
    # The other way round nothing of it is called new.
    turned = compare(new, report(ran(), found()))
    assert [one.kind for one in findings(turned) if one.shown.target == "f"] == ["unknown"]


def test_a_target_and_a_file_that_are_gone() -> None:
    old = report(ran(), ran("g"), found())
    assert kinds(old, report(ran("g"))) == [("gone", 4)]
    gone = compare(old, CheckReport(()))
    assert gone.files[0].missing == "new"
    assert [run.kind for _, target in gone.each_target() for run in target.runs] == ["gone", "gone"]
    assert not gone.incomplete


def test_a_target_that_one_side_recorded_in_part() -> None:
    lossy = found("Findings may be missing.", 1, name="trace/incomplete", text="f")
    more = compare(report(ran(), lossy), report(ran(breaks=2), found(), found(line=5)))
    assert [one.kind for one in findings(more)] == ["gone", "unknown", "unknown"]
    assert more.uncompared == 1 and more.reaches(Severity.WARNING)
    assert "  f: breaks 1 → 2 · incomplete in old\n" in difference_text(more)
    less = compare(report(ran(), found()), report(ran(), lossy))
    assert [one.kind for one in findings(less)] == ["new", "unknown"]
    reason = "not checked in new: Findings may be missing."
    assert f"unknown  1 finding only in old, {reason}" in difference_text(less)


def test_a_finding_of_several_targets() -> None:
    shared = found(targets=("f", "g"))
    failed = ran("g", status="failed")
    # What f does not reach anymore, g may: nobody knows.
    assert kinds(report(ran(), ran("g"), shared), report(ran(), failed)) == [("unknown", 4)]
    assert kinds(report(ran(), failed), report(ran(), ran("g"), shared)) == [("new", 4)]


def test_numbers_that_one_torch_cannot_tell() -> None:
    blind = report(ran(breaks=None))
    unknown = compare(report(ran(), found()), blind)
    assert [one.kind for one in findings(unknown)] == ["unknown"]
    assert not any(target.runs for _, target in unknown.each_target())
    assert unknown.missing_counts == (MissingCount("new", "breaks", 1),)
    text = difference_text(unknown)
    assert (
        "note: fullgraph cannot count breaks with torch 2.13.0 (new), and did not compare "
        "them in 1 target." in text
    )
    more = compare(report(ran(ops=3)), blind)
    assert "  f: ops 3 → 9 · breaks 1 → unknown\n" in difference_text(more) + "\n"


def test_probes_of_a_target_are_told_by_their_inputs() -> None:
    one, two = ran(), ran(inputs="f32[8]")
    assert compare(report(one, two), report(two, one)).files == ()
    less = compare(report(one, two), report(two))
    assert [run.old for _, target in less.each_target() for run in target.runs] == [one]
    other = difference_text(compare(report(one), report(two)))
    assert "  f: inputs f32[4] → f32[8]" in other


def test_words_of_other_people_stay_words_in_markdown() -> None:
    assert inline_code("a `b` @torch.compile") == "``a `b` @torch.compile``"
    assert inline_code("`x`\n  y") == "`` `x` y ``"
    many = [
        CheckReport(
            tuple(report(ran(), *findings, path=f"{number}.py").files[0] for number in range(40))
        )
        for findings in ([], [found("Long. " * 1000)])
    ]
    comment = difference_markdown(compare(*many))
    assert len(comment) < 65_536 and comment.startswith(MARK)
    assert "more files are omitted" in comment


# -- the command ------------------------------------------------------------------------------

MODEL = """\
import torch


# fullgraph: f32[4]
def f(x):
    print(x)
    return x + 1
"""
PROBE = ProbeInfo("comment", "f32[4]", "", "the comment on line 4")
TRACED = TargetReport(
    "f", "function", on(4, 4, 5), "traced", probe=PROBE, graphs=2, ops=3, breaks=1, guards=9
)
CLEAN = dataclasses.replace(TRACED, graphs=1, breaks=0)
BREAK = Finding("graph-break/GB0025", "Failed to trace `print`", on(5, 4, 12), "f")
ITEM = Finding("graph-break/GB0059", "Unsupported Tensor.item() call", on(6, 11, 16), "f")


def said(*findings: Finding, report: TargetReport = TRACED, torch: str = "") -> str:
    events = [FindingFound(0, one) for one in findings]
    return script(*events, TargetDone(0, report), torch=torch)


@pytest.fixture
def pythons(tmp_path: Path) -> list[str]:
    """Flags for two interpreters with a torch each."""
    old = scripted_python(tmp_path / "old-python", SCRIPTED_TORCH="2.6.0")
    new = scripted_python(tmp_path / "new-python", SCRIPTED_TORCH="2.13.0")
    return ["--python", str(old), "--python", str(new)]


UPGRADE = (
    MODEL
    + said(BREAK, report=CLEAN, torch="2.6.0")
    + said(dataclasses.replace(BREAK, message="Graph break in `print`"), ITEM, torch="2.13.0")
)


def test_two_interpreters(command_line: CommandLine, pythons: list[str]) -> None:
    command_line.write("src/model.py", UPGRADE)
    command_line.write("src/same.py", MODEL + said(BREAK))
    ran = command_line.run("diff", *pythons, "src")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out == (
        "1 new warning, 1 changed; 2 targets, 1 differs.\n"
        f"old: {pythons[1]}: torch 2.6.0, Python 3.11.7\n"
        f"new: {pythons[3]}: torch 2.13.0, Python 3.11.7\n"
        "\n"
        "src/model.py\n"
        "  f: graphs 1 → 2 · breaks 0 → 1\n"
        "    changed  6:5    warning[graph-break/GB0025] Graph break in `print` "
        "(was: Failed to trace `print`)\n"
        "    new      7:12   warning[graph-break/GB0059] Unsupported Tensor.item() call\n"
    )
    back = [pythons[0], pythons[3], pythons[2], pythons[1]]
    gone = command_line.run("diff", *back, "--color", "always", "src/model.py")
    assert gone.status == 0
    assert "gone   \x1b[0m  7:12" in gone.out and "\x1b[1mNothing new\x1b[0m, 1 gone" in gone.out
    for severity, status in (("error", 0), ("off", 0), ("information", 1)):
        ran = command_line.run("diff", *pythons, "--exit-severity", severity, "src")
        assert ran.status == status


def test_nothing_differs(command_line: CommandLine, pythons: list[str]) -> None:
    command_line.write("model.py", MODEL + said(BREAK))
    ran = command_line.run("diff", *pythons, "model.py")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("No differences; 1 target.\nold: ") and ran.out.count("\n") == 3


@pytest.mark.parametrize("side", ["old", "new"])
def test_a_side_without_torch(command_line: CommandLine, tmp_path: Path, side: str) -> None:
    command_line.write("model.py", MODEL + said(BREAK))
    bad = scripted_python(tmp_path / "bad", SCRIPTED_UNUSABLE="There is no torch here.")
    both = [str(command_line.interpreter), str(bad)]
    old, new = both if side == "new" else both[::-1]
    ran = command_line.run("diff", "--python", old, "--python", new, "model.py")
    assert ran.status == 2
    assert f"error: {side}: There is no torch here. Install torch." in ran.err
    assert ran.err.count("error: ") == 1
    assert ran.out.startswith("Nothing could be compared.\nold: ") and ran.out.count("\n") == 3


def test_an_interpreter_that_is_not_there(command_line: CommandLine) -> None:
    command_line.write("model.py", MODEL)
    both = ["--python", str(command_line.interpreter), "--python", "./no-python"]
    ran = command_line.run("diff", *both, "model.py")
    assert (ran.status, ran.out) == (2, "")
    assert "no-python" in ran.err and "does not exist" in ran.err
    assert command_line.engine_log() == []


def test_a_file_that_one_side_cannot_trace(command_line: CommandLine, pythons: list[str]) -> None:
    failed = script(Failed(0, "The engine died.", "Try again."), torch="2.13.0")
    command_line.write("model.py", MODEL + said(BREAK, torch="2.6.0") + failed)
    ran = command_line.run("diff", *pythons, "model.py")
    assert ran.status == 2
    reason = "model.py could not be traced. The engine died. Try again."
    assert ran.err == f"error: new: {reason}\n"
    assert f"could not be checked in new: {reason}" in ran.out
    assert "1 not compared" in ran.out and "gone" not in ran.out


# -- revisions --------------------------------------------------------------------------------


@pytest.fixture
def repository(command_line: CommandLine) -> CommandLine:
    """Its tag ``v1`` has no finding, its head has one in a file that was moved there since."""
    folder = command_line.folder
    (folder / ".git").rmdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    command_line.write("pyproject.toml", "[project]\nname = 'p'\n")
    command_line.write("src/model.py", MODEL + said(report=CLEAN))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=one")
    git(folder, "tag", "v1")
    command_line.write("src/model.py", "# Moved down.\n" + MODEL + said(BREAK))
    command_line.write("src/more.py", MODEL + said(report=CLEAN))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=two")
    return command_line


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_two_revisions(repository: CommandLine) -> None:
    before = contents(repository.folder)
    flags = ["--python", str(repository.interpreter), "--rev", "v1", "--rev", "main"]
    ran = repository.run("diff", *flags, "src/")
    assert (ran.status, ran.err) == (1, "")
    head, old, new, *rest = ran.out.splitlines()
    assert head == "1 new warning; 2 targets, 2 differ."
    assert old.startswith("old: v1 (") and new.startswith("new: main (")
    assert rest == [
        "",
        "src/model.py",
        "  f: graphs 1 → 2 · breaks 0 → 1",
        "    new      6:5    warning[graph-break/GB0025] Failed to trace `print`",
        "",
        "src/more.py (not in old)",
        "  f: new target · 1 graph · 3 ops · no breaks",
    ]
    assert contents(repository.folder) == before
    # Each side was traced in a tree of its own, which is gone.
    traced = [line.split()[1] for line in repository.engine_log() if line.startswith("analyze")]
    assert len(traced) == 3
    assert not any(Path(path).exists() or str(repository.folder) in path for path in traced)
    assert {path.partition("/tree/")[2] for path in traced} == {"src/model.py", "src/more.py"}


def test_a_revision_and_the_files_as_they_are(repository: CommandLine) -> None:
    repository.write("src/model.py", MODEL + said(BREAK, ITEM))
    flags = ["--python", str(repository.interpreter), "--rev", "HEAD"]
    ran = repository.run("diff", *flags, str(repository.folder / "src" / "model.py"))
    assert ran.status == 1
    assert "1 new warning; 1 target, 1 differs.\n" in ran.out and "GB0025" not in ran.out
    assert "\nnew: the current files: torch 2.13.0" in ran.out
    # A file that only one side has is no mistake.
    repository.write("src/new.py", MODEL + said(ITEM))
    assert "src/new.py (not in old)" in repository.run("diff", *flags, "src/new.py").out
    missing = repository.run("diff", *flags, "src/nothing.py")
    assert (missing.status, missing.out) == (2, "")
    assert missing.err == "error: src/nothing.py does not exist on either side; check the path.\n"


def recording(forward: str, name: str = "Net", parameters: str = "(x)") -> str:
    call = RecordedCall("", forward)
    recorded = RecordedClass(name, "()", parameters, (call,))
    return written({"src/model.py": (recorded,)})


NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n"


@pytest.mark.parametrize(
    ("committed", "present", "old", "new", "note"),
    [
        pytest.param(
            "",
            recording("f32[8]"),
            "recorded Net ['f32[8]']",
            "recorded Net ['f32[8]']",
            "note: Both sides use the inputs of `Net` in the current fullgraph.probes.json.\n",
            id="not committed",
        ),
        pytest.param(
            recording("f32[4]"),
            recording("f32[8]"),
            "recorded Net ['f32[8]']",
            "recorded Net ['f32[8]']",
            "note: Both sides use the inputs of `Net` in the current fullgraph.probes.json.\n",
            id="recorded again",
        ),
        pytest.param(
            recording("f32[8]"),
            recording("f32[8]"),
            "recorded Net ['f32[8]']",
            "recorded Net ['f32[8]']",
            "",
            id="the same",
        ),
        pytest.param(
            recording("f32[4], f32[4]", parameters="(x, y)"),
            recording("f32[8]"),
            "recorded Net ['f32[4], f32[4]']",
            "recorded Net ['f32[8]']",
            "note: Each side uses its own recorded inputs of `Net`, because the parameters "
            "changed.\n",
            id="other parameters",
        ),
        pytest.param(
            recording("f32[4]"),
            "",
            "",
            "",
            "note: Neither side uses recorded inputs of `Net`, because the current "
            "fullgraph.probes.json has none.\n",
            id="not recorded any more",
        ),
        pytest.param(
            recording("f32[4]", "Former"),
            "",
            "recorded Former ['f32[4]']",
            "",
            "",
            id="only in the revision",
        ),
    ],
)
def test_recorded_inputs_of_the_working_tree_are_for_both_sides(
    committed: str, present: str, old: str, new: str, note: str, repository: CommandLine
) -> None:
    repository.write("src/model.py", NET)
    if committed:
        repository.write(FILE, committed)
    git(repository.folder, "add", ".")
    git(repository.folder, "commit", "--quiet", "--message=three")
    (repository.folder / FILE).unlink(missing_ok=True)
    if present:
        repository.write(FILE, present)
    flags = ["--python", str(repository.interpreter), "--rev", "HEAD"]
    ran = repository.run("diff", *flags, "src/model.py")
    assert (ran.status, ran.err) == (0, note)
    sides = "\n".join(repository.engine_log()).split("analyze ")[1:]
    recorded = ([line for line in side.splitlines() if line[:8] == "recorded"] for side in sides)
    assert ["".join(lines) for lines in recorded] == [old, new]


def test_a_probe_comment_is_that_of_each_side(repository: CommandLine) -> None:
    def with_inputs(inputs: str) -> str:
        return MODEL + said(report=dataclasses.replace(CLEAN, probe=ProbeInfo("comment", inputs)))

    repository.write("src/model.py", with_inputs("f32[4]"))
    git(repository.folder, "commit", "--quiet", "--all", "--message=three")
    repository.write("src/model.py", with_inputs("f32[8]"))
    flags = ["--python", str(repository.interpreter), "--rev", "HEAD"]
    ran = repository.run("diff", *flags, "src/model.py")
    assert "  f: inputs f32[4] → f32[8] (each side has its own probe comment)\n" in ran.out


def test_what_is_no_revision(repository: CommandLine, tmp_path: Path) -> None:
    python = ["--python", str(repository.interpreter)]
    for revision in ("nowhere", "--output=x"):
        ran = repository.run("diff", *python, f"--rev={revision}", "src")
        assert (ran.status, ran.out) == (2, "")
        assert f"git has no revision '{revision}' in {repository.folder}" in ran.err
    outside = tmp_path / "outside.py"
    outside.write_text(MODEL)
    ran = repository.run("diff", *python, "--rev", "v1", str(outside))
    assert ran.status == 2 and "is in no git repository" in ran.err
    ran = repository.run("diff", *python, "--rev", "v1", "src", "--python", "x", PATH="/nowhere")
    assert ran.status == 2


# -- reports ----------------------------------------------------------------------------------


@pytest.fixture
def reports(command_line: CommandLine) -> list[str]:
    command_line.write("model.py", MODEL + said(BREAK, report=CLEAN))
    command_line.check("--format", "json", "--output", "old.json", "model.py")
    command_line.write("model.py", MODEL + said(ITEM))
    # Only a comment differs, for which results are reused.
    command_line.check("--no-cache", "--format", "json", "--output", "new.json", "model.py")
    return ["--report", "old.json", "--report", "new.json"]


def test_two_reports_in_markdown(command_line: CommandLine, reports: list[str]) -> None:
    ran = command_line.run("diff", *reports, "--format", "markdown", "--output", "comment.md")
    assert (ran.status, ran.out, ran.err) == (1, "", "")
    site = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
    item = f"[graph-break/GB0059]({site}/gb0059.html)"
    assert (
        (command_line.folder / "comment.md").read_text()
        == f"""\
<!-- fullgraph diff -->
### `torch.compile`: **1 new warning**, 1 gone; 1 target, 1 differs

- old: `old.json: torch 2.13.0, Python 3.11.7`
- new: `new.json: torch 2.13.0, Python 3.11.7`

#### `model.py`

- `f`: `graphs 1 → 2 · breaks 0 → 1`
  - gone warning [graph-break/GB0025]({site}/gb0025.html), line 6: `` Failed to trace `print` ``
  - **new** warning {item}, line 7: `Unsupported Tensor.item() call`
"""
    )


def test_two_reports_in_json(command_line: CommandLine, reports: list[str]) -> None:
    ran = command_line.run("diff", *reports, "--format", "json")
    assert (ran.status, ran.err) == (1, "")
    document = json.loads(ran.out)
    assert document["version"] == 1
    assert document["old"] == {
        "name": "old.json",
        "torch": "2.13.0",
        "python": "3.11.7",
        "errors": [],
    }
    assert document["summary"] == {
        "findings": {"new": 1, "gone": 1, "changed": 0, "unknown": 0},
        "targets": {"all": 1, "differing": 1, "unknown": 0, "untraced": 0},
    }
    (file,) = document["files"]
    assert (file["path"], file["missing"], file["errors"]) == ("model.py", None, [])
    (target,) = file["targets"]
    (run,) = target["runs"]
    assert (target["name"], run["change"], run["uncomputed"]) == ("f", "changed", None)
    numbers = {"graphs": 1, "ops": 3, "breaks": 0, "skips": 0, "recompiles": 0}
    assert run["old"] == {
        "name": "f",
        "line": 4,
        "status": "traced",
        "mode": "fake",
        "inputs": "f32[4]",
        "error": "",
        "origin": "comment",
        **numbers,
    }
    assert [(one["change"], bool(one["old"])) for one in target["findings"]] == [
        ("gone", True),
        ("new", False),
    ]
    assert target["findings"][1]["new"] == {
        "code": "graph-break/GB0059",
        "severity": "warning",
        "message": "Unsupported Tensor.item() call",
        "target": "f",
        "targets": ["f"],
        "line": 6,
        "character": 11,
        "text": "x + 1",
        "count": 1,
        "href": "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
    }


def test_a_report_without_what_a_baseline_knows(
    command_line: CommandLine, reports: list[str]
) -> None:
    flags = ["--baseline", "new.json", "--no-cache", "--format", "json", "--output", "part.json"]
    command_line.check(*flags, "model.py")
    ran = command_line.run("diff", "--report", "old.json", "--report", "part.json")
    assert (ran.status, ran.out) == (2, "")
    assert "part.json was written with --baseline and leaves out 1 finding" in ran.err
    ran = command_line.run("diff", *reports, "--output", "no/folder.txt")
    assert ran.status == 2
    assert ran.err == "error: Cannot write no/folder.txt: No such file or directory.\n"
    flags = ["--report", "old.json", "--report", "gone.json", "--output", "diff.txt"]
    missing = command_line.run("diff", *flags)
    assert missing.err == "error: Cannot read gone.json: No such file or directory.\n"
    assert not (command_line.folder / "diff.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model.py"], "Give two sides"),
        (["--rev", "main"], "Name the files and folders to check."),
        (["--rev", "main", "-"], "Standard input cannot be compared; name files."),
        (["--rev", "a", "--rev", "b", "--rev", "c", "x"], "Give at most two, old and new."),
        (["--report", "a.json"], "Give two reports, old and new."),
        (["--report", "a.json", "--report", "b.json", "model.py"], "PATHS has no effect"),
        (["--report", "a", "--report", "b", "--mode", "fake"], "--mode has no effect"),
        (["--report", "a", "--report", "b", "--forecast"], "--forecast has no effect"),
    ],
)
def test_what_makes_no_two_sides(
    command_line: CommandLine, arguments: list[str], words: str
) -> None:
    ran = command_line.run("diff", *arguments, COLUMNS="200")
    assert (ran.status, ran.out) == (2, "")
    assert words in " ".join(ran.err.split())


# -- with torch -------------------------------------------------------------------------------

HELPED = """\
import torch
from helper import width


# fullgraph: f32[4]
def f(x):
    return x * width(x)
"""


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here")
def test_revisions_import_their_own_modules(command_line: CommandLine) -> None:
    folder = command_line.folder
    (folder / ".git").rmdir()
    git(folder, "init", "--quiet")
    command_line.write("model.py", HELPED)
    command_line.write("helper.py", "def width(x):\n    return x.shape[0]\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=one")
    command_line.write("helper.py", "def width(x):\n    print(x)\n    return x.shape[0]\n")
    flags = ["--python", sys.executable, "--rev", "HEAD", "--color", "never"]
    ran = command_line.run("diff", *flags, "model.py")
    assert (ran.status, ran.err) == (1, "")
    head, _, _, _, path, target, *rest = ran.out.splitlines()
    assert head == "1 new warning; 1 target, 1 differs."
    assert path == "model.py" and "breaks 0 → 1" in target
    assert rest[0].startswith("    new      7:16   warning[graph-break/") and len(rest) == 1

    command_line.write("helper.py", "")
    broken = command_line.run("diff", *flags, "model.py")
    assert broken.status == 1
    assert "  f: traced → failed" in broken.out
    assert "new      2:20   error[trace/import" in broken.out
    # The other way round, the message names the user's folder, not the temporary one.
    git(folder, "commit", "--quiet", "--all", "--message=two")
    git(folder, "checkout", "--quiet", "HEAD~1", "helper.py")
    fixed = command_line.run("diff", *flags, "model.py")
    assert fixed.status == 0 and "gone     2:20   error[trace/import" in fixed.out
    assert f"({folder}/helper.py)" in fixed.out and "fullgraph-diff-" not in fixed.out
