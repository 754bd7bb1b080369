"""``fullgraph check`` from the outside, with an engine that follows a script."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, on, script

from fullgraph.cli import check
from fullgraph_engine.protocol import (
    Allowed,
    Analyzed,
    Failed,
    Finding,
    FindingFound,
    Fix,
    Frame,
    ProbeInfo,
    Related,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TextEdit,
    from_plain,
)
from fullgraph_engine.protocol.evidence import BreakEvidence
from fullgraph_engine.protocol.sandbox import WritableFolder

MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * x.sum().item()  # 名前
"""
ITEM = on(5, 19, 33)
BREAK = Finding(
    code="graph-break/GB0059",
    message="Unsupported Tensor.item() call with capture_scalar_outputs=False",
    range=ITEM,
    target="Net",
    explanation="Dynamo does not support tracing `Tensor.item()` with config.x = False.",
    hints=("Set `torch._dynamo.config.capture_scalar_outputs = True`.",),
    identity="item",
    count=2,
)
REPORT = TargetReport(
    name="Net",
    kind="module",
    range=on(3, 6, 9),
    status="traced",
    probe=ProbeInfo("convention", "f32[4, 16]", "", "get_inputs"),
    graphs=3,
    ops=13,
    breaks=2,
    guards=41,
    seconds=0.52,
)


def model(*findings: Finding, report: TargetReport = REPORT) -> str:
    found = TargetsFound(0, (TargetInfo("Net", "module", REPORT.range),))
    return MODEL + script(found, *(FindingFound(0, f) for f in findings), TargetDone(0, report))


def test_a_finding_is_shown_with_its_code_reason_and_target(command_line: CommandLine) -> None:
    command_line.write("model.py", model(BREAK))
    ran = command_line.check("model.py")
    shown, _, summary = ran.out.rpartition("; ")
    assert shown == (
        "warning[graph-break/GB0059]: "
        "Unsupported Tensor.item() call with capture_scalar_outputs=False\n"
        " --> model.py:6:20\n"
        "  |\n"
        "5 |     def forward(self, x):\n"
        "6 |         return x * x.sum().item()  # 名前\n"
        "  |                    ^^^^^^^^^^^^^^\n"
        + "7 | "
        + model(BREAK).splitlines()[6][:153]
        + "…\n"
        "  |\n"
        "  = Dynamo does not support tracing `Tensor.item()` with config.x = False.\n"
        "  = hint: Set `torch._dynamo.config.capture_scalar_outputs = True`.\n"
        "  = note: reached 2 times\n"
        "  = help: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html\n"
        "\n"
        "model.py\n"
        "  Net: 3 graphs · 13 ops · 2 breaks · 41 guards · f32[4, 16] from get_inputs · fake"
        " · 0.52 s\n"
        "\n"
        "Found 1 warning"
    )
    assert summary.startswith("1 target in 1 file, torch 2.13.0, ")
    assert (ran.status, ran.err) == (1, "")


def test_nothing_found_is_a_line_per_target_and_status_0(command_line: CommandLine) -> None:
    command_line.write("model.py", model())
    ran = command_line.check("model.py")
    assert ran.status == 0
    assert ran.out.startswith("model.py\n  Net: 3 graphs")
    assert "\nNo findings; 1 target in 1 file" in ran.out


def test_the_stack_folds_libraries_and_is_said_once(command_line: CommandLine) -> None:
    path = str(command_line.folder / "model.py")
    library = "/x/lib/python3.11/site-packages/torch/nn/modules/module.py"
    stack = (
        Frame(path, "Outer.forward", 4, 4, text="def forward(self, x):"),
        Frame(library, "_wrapped_call_impl", 1780),
        Frame(library, "_call_impl", 1790),
        Frame(path, "Net.forward", 5, 8),
    )
    related = (
        Related(path, on(4, 4, 8), "called from here"),
        Related(path, on(0, 7, 12), "imported here"),
    )
    finding = Finding("graph-break/GB0059", "m", ITEM, "Net", stack=stack, related=related)
    command_line.write("model.py", model(finding))
    out = command_line.check("model.py").out
    assert (
        "  = stack: model.py:5 in Outer.forward\n"
        "             def forward(self, x):\n"
        "           ... 2 frames of torch\n"
        "           model.py:6 in Net.forward\n"
        "  = see"
    ) in out
    assert "= see: model.py:1:8: imported here" in out
    assert "called from here" not in out


def test_frames_around_the_users_code_are_left_out(command_line: CommandLine) -> None:
    path = str(command_line.folder / "model.py")
    library = Frame("/x/lib/python3.11/runpy.py", "run", 1)
    engine = Frame("/y/fullgraph_engine/host/run.py", "run", 1)
    own = Frame(path, "Net.forward", 5, 8)
    finding = Finding("graph-break/GB0059", "m", ITEM, "Net", stack=(library, engine, own))
    command_line.write("model.py", model(finding))
    assert "stack" not in command_line.check("model.py").out
    inner = Frame("/x/lib/python3.11/site-packages/einops/ops.py", "rearrange", 8, text="raise")
    finding = Finding("graph-break/GB0059", "m", ITEM, "Net", stack=(library, own, inner))
    command_line.write("model.py", model(finding))
    assert (
        "  = stack: model.py:6 in Net.forward\n"
        "             return x * x.sum().item()  # 名前\n"
        "           einops/ops.py:9 in rearrange\n"
        "             raise\n"
    ) in command_line.check("model.py").out


def test_json_is_as_promised(command_line: CommandLine) -> None:
    line = "    s, x = '🎉', y.item()\n"
    start = len(line[: line.index("y")].encode())
    place = on(0, start, start + 8)
    finding = Finding(
        "graph-break/GB0059",
        "m",
        place,
        "Net",
        hints=("h",),
        related=(Related(str(command_line.folder / "a.py"), place, "r"),),
        fixes=(Fix("f", (TextEdit(place, "y"),)),),
        evidence=BreakEvidence("Unsupported Tensor.item() call"),
    )
    command_line.write("a.py", line + script(FindingFound(0, finding), TargetDone(0, REPORT)))
    ran = command_line.check("--format", "json", "a.py")
    document = json.loads(ran.out)
    (file,) = document["files"]
    (target,), (found,) = file["targets"], file["findings"]
    utf16 = {"start": {"line": 0, "character": 17}, "end": {"line": 0, "character": 25}}
    assert document["version"] == 1
    assert (document["torch"], document["python"]) == ("2.13.0", "3.11.7")
    assert file["path"] == "a.py" and isinstance(file["seconds"], float)
    assert {name: target[name] for name in ("name", "line", "status", "mode", "error")} == {
        "name": "Net",
        "line": 3,
        "status": "traced",
        "mode": "fake",
        "error": None,
    }
    assert target["probe"] == {
        "origin": "convention",
        "init": "",
        "inputs": "f32[4, 16]",
        "source": "get_inputs",
    }
    assert [target[name] for name in ("graphs", "ops", "breaks", "guards")] == [3, 13, 2, 41]
    assert found["range"] == utf16
    assert found["related"] == [{"path": "a.py", "range": utf16, "message": "r"}]
    assert {name: found[name] for name in ("code", "severity", "message", "target", "count")} == {
        "code": "graph-break/GB0059",
        "severity": "warning",
        "message": "m",
        "target": "Net",
        "count": 1,
    }
    assert found["href"].endswith("gb0059.html")
    assert found["data"]["evidence"] == {
        "title": "Unsupported Tensor.item() call",
        "outcome": "resumed",
        "strict": "",
        "condition": "",
        "kind": "break",
    }
    assert found["data"]["fixes"] == [{"title": "f", "edits": [{"range": utf16, "text": "y"}]}]
    assert ran.status == 1


def test_json_of_what_could_not_be_done_is_still_json(command_line: CommandLine) -> None:
    command_line.write("bad.py", b"x = '\xff'\n")
    ran = command_line.check("--format", "json", "bad.py", "nowhere.py")
    document = json.loads(ran.out)
    assert document["torch"] is None
    assert "is not UTF-8 text" in document["files"][0]["error"]
    assert document["errors"] == ["nowhere.py does not exist; check the path."]
    assert ran.status == 2
    assert ran.err.count("error: ") == 2


def test_sarif_has_the_parts_that_readers_need(command_line: CommandLine) -> None:
    path = str(command_line.folder / "a model.py")
    stack = (Frame(path, "f", 4, 4), Frame(path, "g", 5, 19, 5, 33))
    fix = Fix("Write a probe", (TextEdit(on(3, 0, 0), "# fullgraph: f32[8]\n"),))
    related = Related(path, on(4, 4, 7), "here")
    finding = Finding(
        "graph-break/GB0059", "m", ITEM, "Net", stack=stack, fixes=(fix,), related=(related,)
    )
    note = Finding("probe/missing", "n", on(3, 6, 9), "Net")
    command_line.write("a model.py", model(finding, note))
    log = json.loads(command_line.check("--format", "sarif", "a model.py").out)
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["graph-break/GB0059", "probe/missing"]
    assert [rule["defaultConfiguration"]["level"] for rule in rules] == ["warning", "note"]
    by_rule = {result["ruleId"]: result for result in run["results"]}
    result = by_rule["graph-break/GB0059"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "a%20model.py"},
                "region": {"startLine": 6, "startColumn": 20, "endLine": 6, "endColumn": 34},
            }
        }
    ]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["physicalLocation"]["region"]["startLine"] for s in steps] == [5, 6]
    assert result["relatedLocations"][0]["message"] == {"text": "here"}
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "# fullgraph: f32[8]\n"}
    assert by_rule["probe/missing"]["level"] == "note"
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]
    assert run["columnKind"] == "utf16CodeUnits"


def test_a_fingerprint_stays_when_the_line_moves(command_line: CommandLine) -> None:
    moved = on(6, 19, 33)
    command_line.write("a.py", model(BREAK))
    further = Finding(**{**vars(BREAK), "range": moved})
    command_line.write("b.py", "# new\n" + model(further))
    log = json.loads(command_line.check("--format", "sarif", "a.py", "b.py").out)
    first, second = (result["partialFingerprints"] for result in log["runs"][0]["results"])
    assert first == second


def test_github_annotations_are_escaped(command_line: CommandLine) -> None:
    command_line.write(
        "a,b.py", model(Finding("trace/eager-error", "50% off:\nnow", ITEM, "Net", count=3))
    )
    ran = command_line.check("--format", "github", "a,b.py")
    assert ran.out == (
        "::error file=a%2Cb.py,line=6,endLine=6,col=20,endColumn=34,"
        "title=fullgraph%3A trace/eager-error::50%25 off:%0Anow%0Areached 3 times%0A"
        "https://github.com/fullgraph/fullgraph/blob/main/docs/codes.md"
        "#traceeager-error\n"
    )


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 1),
        (("--exit-severity", "error"), 0),
        (("--exit-severity", "off"), 0),
        (("--severity", "graph-break=information"), 0),
        (("--severity", "GB0059=error", "--exit-severity", "error"), 1),
        (("--ignore", "graph-break"), 0),
        (("--select", "op,guard"), 0),
        (("--select", "op", "--select", "GB0059"), 1),
    ],
)
def test_the_exit_status_follows_severity_and_selection(
    command_line: CommandLine, flags: tuple[str, ...], status: int
) -> None:
    command_line.write("model.py", model(BREAK))
    assert command_line.check(*flags, "model.py").status == status


def test_settings_come_from_the_project_and_flags_win(command_line: CommandLine) -> None:
    command_line.write("pyproject.toml", "[tool.fullgraph]\nmode = 'real'\nignore = ['GB0059']\n")
    command_line.write("sub/model.py", model(BREAK))
    assert command_line.check("sub/model.py").status == 0
    assert "mode=real" in command_line.engine_log()[-1]
    assert command_line.check("--ignore", "op", "--mode", "fake", "sub/model.py").status == 1
    assert "mode=fake" in command_line.engine_log()[-1]
    assert f"cwd={command_line.folder}" in command_line.engine_log()[-1]


def test_a_bad_setting_of_the_project_is_a_warning_and_a_bad_flag_ends_it(
    command_line: CommandLine,
) -> None:
    command_line.write("pyproject.toml", "[tool.fullgraph]\ntimeout = 'soon'\n")
    command_line.write("model.py", model())
    ran = command_line.check("model.py")
    assert ran.status == 0
    assert ran.err == (
        f"warning: Setting 'timeout' of {command_line.folder / 'pyproject.toml'} "
        "must be a number of seconds, at least 0.1; 60 is used.\n"
    )
    ran = command_line.check("--mode", "fast", "model.py")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == 'error: --mode must be "auto", "fake" or "real".\n'


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            ("--format", "xml", "model.py"),
            "'xml' is not one of text, json, sarif, github",
        ),
        (("--color", "red", "model.py"), "'red' is not one of auto, always, never."),
        ((), "the following arguments are required: PATHS"),
        (("--output", "no/such/folder/out.txt", "model.py"), "Cannot write no/such/folder/out.txt"),
    ],
)
def test_wrong_use_is_said_and_is_status_2(
    command_line: CommandLine, arguments: tuple[str, ...], part: str
) -> None:
    command_line.write("model.py", model())
    ran = command_line.check(*arguments)
    assert ran.status == 2 and part in ran.err
    assert command_line.engine_log() == []


def test_many_files_share_one_engine_and_appear_in_order(command_line: CommandLine) -> None:
    for name in "dbca":
        command_line.write(f"{name}.py", model(BREAK))
    ran = command_line.check("--jobs", "3", ".")
    places = [line.split()[1] for line in ran.out.splitlines() if "-->" in line]
    assert places == [f"{name}.py:6:20" for name in "abcd"]
    log = command_line.engine_log()
    assert len([line for line in log if line.startswith("started")]) == 1
    assert len([line for line in log if "jobs=1 " in line]) == 4
    assert "Found 4 warnings; 4 targets in 4 files" in ran.out


def test_one_file_may_use_all_jobs(command_line: CommandLine) -> None:
    command_line.write("a.py", model())
    command_line.check("--jobs", "3", "a.py")
    assert "jobs=3 " in command_line.engine_log()[-1]


@pytest.mark.parametrize("count", [check.MOST_KEPT, check.MOST_KEPT + 1])
def test_processes_are_kept_for_later_versions_of_a_few_files(
    command_line: CommandLine, count: int
) -> None:
    for number in range(count):
        command_line.write(f"m{number}.py", model())
    command_line.check(".")
    log = [line for line in command_line.engine_log() if line.startswith("analyze")]
    few = count <= check.MOST_KEPT
    assert len(log) == count and all(f"keep={few} " in line for line in log)


def test_files_that_cannot_have_targets_need_no_engine_but_count(
    command_line: CommandLine,
) -> None:
    command_line.write("a.py", "x = 1\n")
    command_line.write("b.py", "")
    ran = command_line.check(".", SCRIPTED_UNUSABLE="There is no torch.")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("No findings; no targets in 2 files, ")
    assert command_line.engine_log() == []


def test_a_named_file_is_always_traced_and_never_silent(command_line: CommandLine) -> None:
    command_line.write("a.py", "x = 1\n")
    command_line.write("b.py", "\n  \n")
    ran = command_line.check("a.py", "b.py")
    assert "a.py\n  Nothing to trace: the file has no nn.Module class" in ran.out
    assert "b.py\n  The file is empty: there is nothing to trace." in ran.out
    assert ran.status == 0


def test_an_interpreter_without_torch_is_one_sentence_and_status_2(
    command_line: CommandLine,
) -> None:
    for name in ("a.py", "b.py"):
        command_line.write(name, model(BREAK))
    ran = command_line.check("a.py", "b.py", SCRIPTED_UNUSABLE="There is no torch in /x/python.")
    assert ran.err == "error: There is no torch in /x/python. Install torch.\n"
    assert (ran.status, ran.out) == (2, "")


def test_an_interpreter_that_is_not_there_is_said(command_line: CommandLine) -> None:
    command_line.write("a.py", model())
    ran = command_line.run("check", "--python", "./no-python", "a.py")
    assert ran.status == 2
    assert ran.err.startswith(f"error: The interpreter {command_line.folder}/no-python")
    assert len(ran.err.splitlines()) == 1


def test_an_engine_that_dies_fails_that_file_alone(command_line: CommandLine) -> None:
    command_line.write("a.py", MODEL + "#! die\n")
    command_line.write("b.py", model(BREAK))
    ran = command_line.check("--jobs", "1", "a.py", "b.py")
    assert ran.status == 2
    assert "error: a.py could not be traced. The engine" in ran.err
    assert "--> b.py:6:20" in ran.out
    assert "1 could not be checked" in ran.out


def test_a_syntax_error_is_a_finding_not_a_failure(command_line: CommandLine) -> None:
    finding = Finding("trace/syntax-error", "'(' was never closed", on(0, 5, 6))
    failed = Failed(0, "The file does not parse.", "Correct the syntax error to get findings.")
    command_line.write("a.py", "def f(x:\n" + script(FindingFound(0, finding), failed))
    ran = command_line.check("a.py")
    assert (ran.status, ran.err) == (1, "")
    assert "error[trace/syntax-error]: '(' was never closed\n --> a.py:1:6\n" in ran.out


def test_a_failure_of_the_engine_is_said_for_its_file(command_line: CommandLine) -> None:
    command_line.write("a.py", MODEL + script(Failed(0, "It is too large.", "Split it.")))
    ran = command_line.check("a.py")
    assert ran.status == 2
    assert ran.err == "error: a.py could not be traced. It is too large. Split it.\n"


def test_what_cannot_be_read_does_not_stop_the_rest(command_line: CommandLine) -> None:
    command_line.write("a.py", b"x = '\xff'\n")
    command_line.write("b.py", model(BREAK))
    ran = command_line.check("nowhere.py", "a.py", "b.py")
    assert ran.status == 2
    assert "error: nowhere.py does not exist; check the path.\n" in ran.err
    assert "error: a.py is not UTF-8 text" in ran.err
    assert "--> b.py:6:20" in ran.out


def test_standard_input_is_checked_under_its_name(command_line: CommandLine) -> None:
    ran = command_line.check("-", stdin=model(BREAK).encode())
    assert "--> <stdin>:6:20" in ran.out and ran.status == 1
    ran = command_line.check("--stdin-filename", "pkg/net.py", "-", stdin=model(BREAK).encode())
    assert "--> pkg/net.py:6:20" in ran.out
    assert f"analyze {command_line.folder}/pkg/net.py " in command_line.engine_log()[-1]
    ran = command_line.check("-", stdin=b"\xff\n")
    assert ran.status == 2 and "<stdin> is not UTF-8 text" in ran.err


def test_output_goes_to_a_file(command_line: CommandLine) -> None:
    command_line.write("model.py", model(BREAK))
    ran = command_line.check("--output", "out.json", "--format", "json", "model.py")
    assert (ran.out, ran.status) == ("", 1)
    written = json.loads((command_line.folder / "out.json").read_text())
    assert written["files"][0]["findings"]


def test_quiet_leaves_only_findings(command_line: CommandLine) -> None:
    command_line.write("model.py", model(BREAK))
    ran = command_line.check("--quiet", "model.py")
    assert ran.out.startswith("warning[graph-break/GB0059]")
    assert ran.out.endswith("gb0059.html\n\n")
    command_line.write("model.py", model())
    assert command_line.check("-q", "model.py").out == ""


def test_colors_are_for_terminals_unless_asked_for(command_line: CommandLine) -> None:
    command_line.write("model.py", model(BREAK))
    assert "\x1b[" not in command_line.check("model.py").out
    assert "\x1b[" in command_line.check("--color", "always", "model.py").out
    assert "\x1b[" in command_line.check("model.py", FORCE_COLOR="1").out
    assert "\x1b[" not in command_line.check("model.py", FORCE_COLOR="1", NO_COLOR="1").out


def test_code_and_messages_cannot_command_the_terminal(command_line: CommandLine) -> None:
    evil = Finding(
        "graph-break/GB0059", "m\x1b]0;evil\x07", on(0, 0, 1), "N\x1b[2J", hints=("\x1b",)
    )
    report = TargetReport("N\x1b[2J", "module", on(0, 0, 1), "failed", error="\x1b[2J")
    text = "x = '\x1b[31m'\n" + script(FindingFound(0, evil), TargetDone(0, report))
    command_line.write("a.py", text)
    assert "\x1b" not in command_line.check("a.py").out


def test_output_that_the_terminal_cannot_encode_is_replaced(command_line: CommandLine) -> None:
    command_line.write("model.py", model(BREAK))
    ran = command_line.check("model.py", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "3 graphs - 13 ops" in ran.out and "# ??" in ran.out
    assert ran.status == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_engine_too(
    command_line: CommandLine, number: signal.Signals, status: int
) -> None:
    command_line.write("a.py", MODEL + "#! hang\n")
    process = command_line.start("check", "--python", str(command_line.interpreter), "a.py")
    deadline = time.monotonic() + 60
    while "hanging" not in command_line.engine_log():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    words = f"Interrupted by {number.name}: 1 of 1 file was not analyzed."
    assert process.returncode == status and words in err.decode()
    assert out == b""
    engine = int(command_line.engine_log()[0].split()[1])
    with pytest.raises(ProcessLookupError):
        os.kill(engine, 0)


def test_a_reader_that_has_seen_enough_is_no_error(command_line: CommandLine) -> None:
    for number in range(30):
        command_line.write(f"m{number}.py", model(*[BREAK] * 3))
    process = command_line.start("check", "--python", str(command_line.interpreter), ".")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_notes_of_the_engine_are_shown(command_line: CommandLine) -> None:
    note = "Only the first 200 of 300 targets are traced."
    command_line.write("a.py", MODEL + script(TargetsFound(0, (), note)))
    assert note in command_line.check("a.py").out
    document = json.loads(command_line.check("--format", "json", "a.py").out)
    assert document["files"][0]["notes"] == [note]


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            TargetReport("Net", "module", on(3, 6, 9), "no-probe"),
            "not traced: fullgraph doesn't know this function's inputs",
        ),
        (
            TargetReport(
                "Net",
                "module",
                on(3, 6, 9),
                "failed",
                probe=ProbeInfo("comment", "f32[b=4, 16]", "d=8", "line 3"),
                error="ValueError: no\nTraceback",
            ),
            "failed: ValueError: no · init(d=8) f32[b=4, 16] from line 3 · fake · 0.00 s",
        ),
        (
            TargetReport(
                "Net",
                "module",
                on(3, 6, 9),
                "traced",
                probe=ProbeInfo(
                    "synthesis",
                    "f32[3, 4]",
                    unusual="`conv2d` gets 3 dimensions instead of 4",
                    shortened="`x.shape[1]` is 4 instead of 64",
                ),
                graphs=1,
            ),
            "1 graph · no ops · no breaks · no guards · unusual guessed inputs: f32[3, 4] "
            "(`conv2d` gets 3 dimensions instead of 4; `x.shape[1]` is 4 instead of 64)"
            " · fake · 0.00 s",
        ),
        (
            TargetReport(
                "Net",
                "module",
                on(3, 6, 9),
                "failed",
                probe=ProbeInfo("synthesis", ""),
                error="NameError: name 'a' is not defined",
            ),
            "failed: NameError: name 'a' is not defined · fake · 0.00 s",
        ),
        (
            TargetReport(
                "Net", "module", on(3, 6, 9), "traced", "real", None, 1, 1, 0, 2, 0, 1, 12
            ),
            "1 graph · 1 op · no breaks · 2 frames skipped · 1 recompile · no guards"
            " · real · 12.0 s",
        ),
    ],
    ids=["no probe", "failed", "guessed inputs", "failed before the call", "one of each"],
)
def test_a_line_per_target_says_how_it_went(
    command_line: CommandLine, report: TargetReport, line: str
) -> None:
    command_line.write("a.py", model(report=report))
    assert f"\n  Net: {line}\n" in command_line.check("a.py").out


@pytest.mark.parametrize(
    ("hidden", "flags", "status"),
    [
        ("breaks", (), 2),
        ("breaks", ("--select", "graph-break"), 2),
        ("breaks", ("--select", "GB0059"), 2),
        ("breaks", ("--select", "recompile"), 0),
        ("breaks", ("--ignore", "graph-break"), 0),
        ("breaks", ("--ignore", "GB0059"), 2),
        ("graphs", ("--select", "recompile"), 2),
        ("speed,values,documents", (), 0),
    ],
)
def test_what_a_torch_does_not_show_is_never_a_clean_check(
    command_line: CommandLine, hidden: str, flags: tuple[str, ...], status: int
) -> None:
    report = TargetReport("Net", "module", on(3, 6, 9), "traced", breaks=None)
    command_line.write("a.py", model(report=report))
    ran = command_line.check(*flags, "a.py", SCRIPTED_HIDDEN=hidden)
    assert ran.status == status, ran
    assert "breaks unknown" in ran.out and "no breaks" not in ran.out
    told = "fullgraph cannot detect" in ran.err
    assert told == (status == 2), ran.err
    assert told == ("No findings in the code that could be checked" in ran.out), ran.out
    if told:
        assert "it has no name for them" in ran.err and "`fullgraph doctor`" in ran.err


def test_what_a_torch_does_not_show_is_in_every_format(command_line: CommandLine) -> None:
    report = TargetReport("Net", "module", on(3, 6, 9), "traced", breaks=None)
    command_line.write("a.py", model(report=report))
    ran = command_line.check("--format", "json", "a.py", SCRIPTED_HIDDEN="breaks")
    document = json.loads(ran.out)
    assert document["files"][0]["targets"][0]["breaks"] is None
    assert "fullgraph cannot detect graph breaks" in document["errors"][0]
    ran = command_line.check("--format", "sarif", "a.py", SCRIPTED_HIDDEN="breaks")
    assert "fullgraph cannot detect graph breaks" in ran.out and ran.status == 2
    ran = command_line.check("--format", "github", "a.py", SCRIPTED_HIDDEN="breaks")
    assert "fullgraph cannot detect graph breaks" in ran.out and ran.status == 2


def test_help_and_version_work_without_an_interpreter(command_line: CommandLine) -> None:
    assert command_line.run("--version").out == "fullgraph 0.1.0\n"
    ran = command_line.run("check", "--help")
    assert ran.status == 0
    for flag in ("--format", "--python", "--mode", "--select", "--exit-severity", "--jobs"):
        assert flag in ran.out


def test_paths_that_are_given_absolute_stay_absolute(
    command_line: CommandLine, tmp_path: Path
) -> None:
    path = command_line.write("model.py", model(BREAK))
    assert f"--> {path}:6:20" in command_line.check(str(path)).out
    log = json.loads(command_line.check("--format", "sarif", str(path)).out)
    assert log["runs"][0]["artifacts"][0]["location"]["uri"] == path.as_uri()


def test_the_last_event_ends_a_file(command_line: CommandLine) -> None:
    ended = script(Analyzed(0, "", 0.1))
    late = script(FindingFound(0, BREAK))
    command_line.write("a.py", MODEL + ended + late)
    assert "No findings" in command_line.check("a.py").out


def test_a_comment_ignores_what_is_found_on_its_line(command_line: CommandLine) -> None:
    for comment, status in (("ignore[GB0059]", 0), ("ignore[recompile]", 1)):
        text = model(BREAK).replace("# 名前", f"# fullgraph: {comment}")
        command_line.write("model.py", text)
        ran = command_line.check("model.py")
        assert ran.status == status
        assert ("GB0059]:" in ran.out) == (status == 1)
        assert "2 breaks" in ran.out


def test_what_the_sandbox_allows_is_said_on_the_command_line(command_line: CommandLine) -> None:
    command_line.write("model.py", "x = 1\n")
    assert command_line.check("model.py", "--allow", "network,write:cache").status == 0
    (line,) = [one for one in command_line.engine_log() if one.startswith("allowed ")]
    given = from_plain(Allowed, json.loads(line.removeprefix("allowed ")))
    here = str(command_line.folder)
    assert given == Allowed(network=True, writable=(WritableFolder(f"{here}/cache", here),))
    ran = command_line.check("model.py", "--allow", "netwrk")
    assert ran.status == 2
    words = "error: --allow has 'netwrk', which is not a valid entry (did you mean 'network'?).\n"
    assert ran.err == words


def test_a_project_cannot_say_what_the_sandbox_allows(command_line: CommandLine) -> None:
    manifest = '[tool.fullgraph.sandbox]\nallow = ["network"]\n'
    command_line.write("pyproject.toml", manifest)
    command_line.write("model.py", "x = 1\n")
    ran = command_line.check("model.py")
    assert "pyproject.toml is ignored: only your own settings and the command line" in ran.err
    assert not [line for line in command_line.engine_log() if line.startswith("allowed")]


@pytest.mark.parametrize(
    ("arguments", "manifest", "processes"),
    [
        ((), "", "auto"),
        ((), '[tool.fullgraph.engine]\nprocesses = "spawn"\n', "spawn"),
        (("--engine-processes", "fork"), '[tool.fullgraph]\nengine-processes = "spawn"\n', "fork"),
    ],
)
def test_how_the_engine_starts_processes_is_a_setting(
    command_line: CommandLine, arguments: tuple[str, ...], manifest: str, processes: str
) -> None:
    command_line.write("pyproject.toml", manifest)
    command_line.write("model.py", "x = 1\n")
    assert command_line.check("model.py", *arguments).status == 0
    assert f"processes {processes}" in command_line.engine_log()
